package charts

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestTheChartsAreLinted(t *testing.T) {
	t.Parallel()
	for _, v := range variants {
		if _, err := helm(t, append([]string{"lint", "--strict", "--quiet", v.chart}, v.args...)...); err != nil {
			t.Error(err)
		}
	}
}

// copied are kinds that a chart has from elsewhere: TestCopies compares them.
var copied = []string{"CustomResourceDefinition", "ClusterRole", "Role", "ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"}

func TestWhatTheChartsRender(t *testing.T) {
	t.Parallel()
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			var got strings.Builder
			for _, object := range objects(t, v.manifest(t)) {
				switch {
				case slices.Contains(copied, object.GetKind()):
					delete(object.Object, "rules")
					delete(object.Object, "spec")
				case object.GetKind() == "PrometheusRule":
					delete(object.Object, "spec")
				case object.GetKind() == "ConfigMap":
					delete(object.Object, "data")
				}
				got.WriteString("---\n" + toYAML(t, object.Object))
			}
			expectGolden(t, v.name+".yaml", got.String())
		})
	}
}

// TestCopies: what the charts have from deploy/ is what is there, whole.
func TestCopies(t *testing.T) {
	t.Parallel()
	for chart, sources := range map[string][]string{
		hubChart:   {"crds/*.yaml", "rbac/hub.yaml", "admission/*.yaml"},
		agentChart: {"crds/vdi.kasm.io_sessionassignments.yaml", "rbac/agent.yaml"},
	} {
		want := map[string]map[string]any{}
		for _, pattern := range sources {
			files, err := filepath.Glob(root + "/deploy/" + pattern)
			if err != nil || len(files) == 0 {
				t.Fatalf("no files %s: %v", pattern, err)
			}
			for _, file := range files {
				if chart == hubChart && strings.HasSuffix(file, "_sessionassignments.yaml") {
					continue // the agent's
				}
				maps.Copy(want, bare(objects(t, read(t, file))))
			}
		}
		args := []string{"--set", "crds.keep=true"}
		if chart == hubChart {
			args = append(args, hubRequired...)
		}
		manifest, err := template(t, chart, args...)
		if err != nil {
			t.Fatal(err)
		}
		got := bare(objects(t, manifest))
		for name := range got {
			if _, ours := want[name]; !ours {
				delete(got, name)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s differs from deploy/, run `make manifests` (-want +got):\n%s", chart, diff)
		}
	}
}

// bare are objects by kind and name, without what a chart adds to their metadata.
func bare(all []*unstructured.Unstructured) map[string]map[string]any {
	out := map[string]map[string]any{}
	for _, object := range all {
		name := object.GetKind() + "/" + object.GetName()
		object.SetLabels(nil)
		annotations := object.GetAnnotations()
		delete(annotations, "helm.sh/resource-policy")
		object.SetAnnotations(annotations)
		out[name] = object.Object
	}
	return out
}

// TestCopiesOfFiles that are no objects, and of what kustomize can't reach.
func TestCopiesOfFiles(t *testing.T) {
	t.Parallel()
	for copied, source := range map[string]string{
		"charts/vdi-hub/files/rules.yaml":       "observability/rules/hub.yaml",
		"charts/vdi-hub/files/dashboard.json":   "observability/dashboards/hub.json",
		"charts/vdi-agent/files/rules.yaml":     "observability/rules/agent.yaml",
		"charts/vdi-agent/files/dashboard.json": "observability/dashboards/agent.json",
		"agent/rbac.yaml":                       "rbac/agent.yaml",
		"agent/crds.yaml":                       "crds/vdi.kasm.io_sessionassignments.yaml",
	} {
		if read(t, filepath.Join(root, "deploy", copied)) != read(t, filepath.Join(root, "deploy", source)) {
			t.Errorf("deploy/%s is not deploy/%s, run `make manifests`", copied, source)
		}
	}
}

func TestAnotherNamespaceIsSaidEverywhere(t *testing.T) {
	t.Parallel()
	for _, v := range variants {
		manifest, err := helm(t, append([]string{"template", "fleet", v.chart, "--namespace", "elsewhere"}, v.args...)...)
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range objects(t, manifest) {
			if slices.Contains([]string{"ConfigMap", "PrometheusRule", "CustomResourceDefinition"}, object.GetKind()) {
				continue // words for people
			}
			if text := toYAML(t, object.Object); strings.Contains(text, namespace) {
				t.Errorf("%s: %s %s speaks of %s", v.name, object.GetKind(), object.GetName(), namespace)
			}
		}
	}
}

func TestTheFinalizersPolicyIsLeftOutWhereNoneIsServed(t *testing.T) {
	t.Parallel()
	for version, served := range map[string]bool{"1.32.0": false, "1.35.9": false, "1.36.0": true} {
		manifest, err := template(t, hubChart, append([]string{"--kube-version", version}, hubRequired...)...)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(manifest, "kind: MutatingAdmissionPolicy\n"); got != served {
			t.Errorf("with Kubernetes %s it is rendered: %v", version, got)
		}
	}
	if _, err := template(t, hubChart, append([]string{"--kube-version", "1.31.0"}, hubRequired...)...); err == nil {
		t.Error("Kubernetes 1.31 is taken, where the CRDs are not")
	}
}

// Load balancers that hide source addresses would make agents share an attacker's
// limits.
func TestALoadBalancerKeepsSourceAddresses(t *testing.T) {
	t.Parallel()
	for serviceType, want := range map[string]string{"LoadBalancer": "Local", "NodePort": "Cluster", "ClusterIP": ""} {
		manifest, err := template(t, hubChart, append([]string{"--set", "link.service.type=" + serviceType}, hubRequired...)...)
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range objects(t, manifest) {
			got, _, err := unstructured.NestedString(object.Object, "spec", "externalTrafficPolicy")
			if object.GetKind() == "Service" && object.GetName() == "vdi-hub" && (err != nil || got != want) {
				t.Errorf("a Service of type %s has externalTrafficPolicy %q, not %q (%v)", serviceType, got, want, err)
			}
		}
	}
}
