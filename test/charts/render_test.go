package charts

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/vdi-fleet/vdi-fleet/deploy"
)

func TestTheChartsAreLinted(t *testing.T) {
	t.Parallel()
	for _, v := range variants {
		if _, err := helm(t, append([]string{"lint", "--strict", "--quiet", v.chart}, v.args...)...); err != nil {
			t.Error(err)
		}
	}
}

// generated are the kinds that a chart has from files/: TestFilesAreRenderedAsTheyAre checks
// them.
var generated = []string{"CustomResourceDefinition", "ClusterRole", "Role", "ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"}

// TestWhatTheChartsRender has a golden file with all objects for the defaults of each chart,
// and with the differences from these for other values.
func TestWhatTheChartsRender(t *testing.T) {
	t.Parallel()
	for i, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			got := written(t, v)
			switch {
			case i == hubDefaults || i == agentDefaults:
				var full strings.Builder
				for _, object := range got {
					full.WriteString("---\n" + toYAML(t, object.Object))
				}
				expectGolden(t, v.name+".yaml", full.String())
			case v.chart == hubChart:
				expectGolden(t, v.name+".txt", differences(t, written(t, variants[hubDefaults]), got))
			default:
				expectGolden(t, v.name+".txt", differences(t, written(t, variants[agentDefaults]), got))
			}
		})
	}
}

// written returns the objects of a variant without what comes from files/.
func written(t *testing.T, v variant) []*unstructured.Unstructured {
	t.Helper()
	all := objects(t, v.manifest(t))
	for _, object := range all {
		switch {
		case slices.Contains(generated, object.GetKind()):
			delete(object.Object, "rules")
			delete(object.Object, "spec")
		case object.GetKind() == "PrometheusRule":
			delete(object.Object, "spec")
		case object.GetKind() == "ConfigMap":
			delete(object.Object, "data")
		}
	}
	return all
}

// differences lists by object the fields that differ between two manifests: a line for each,
// with - if it is of the first, and with + if it is of the second.
func differences(t *testing.T, first, second []*unstructured.Unstructured) string {
	t.Helper()
	lines := map[string][]string{}
	before, after := fieldsOf(t, first), fieldsOf(t, second)
	for sign, pair := range map[string][2]map[string]map[string]string{"-": {before, after}, "+": {after, before}} {
		for name, fields := range pair[0] {
			other, common := pair[1][name]
			if !common && sign == "-" {
				lines[name] = []string{"is gone"}
				continue
			}
			for field, value := range fields {
				if there, is := other[field]; !is || there != value {
					lines[name] = append(lines[name], fmt.Sprintf("%s\x00%s: %s", field, sign, value))
				}
			}
		}
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		text.WriteString(name + "\n")
		slices.Sort(lines[name])
		for _, line := range lines[name] {
			if field, value, found := strings.Cut(line, "\x00"); found {
				line = value[:1] + " " + field + value[1:]
			}
			text.WriteString("  " + line + "\n")
		}
	}
	return text.String()
}

// fieldsOf returns the fields of objects, by kind and name of the object and path of the
// field.
func fieldsOf(t *testing.T, all []*unstructured.Unstructured) map[string]map[string]string {
	t.Helper()
	out := map[string]map[string]string{}
	for _, object := range all {
		fields := map[string]string{}
		flatten(t, "", object.Object, fields)
		out[strings.TrimSuffix(object.GetKind()+"/"+object.GetName()+"/"+object.GetNamespace(), "/")] = fields
	}
	if len(out) != len(all) {
		t.Errorf("%d objects have %d names", len(all), len(out))
	}
	return out
}

func flatten(t *testing.T, path string, value any, into map[string]string) {
	t.Helper()
	switch value := value.(type) {
	case map[string]any:
		for key, field := range value {
			flatten(t, path+"."+key, field, into)
		}
		if len(value) > 0 {
			return
		}
	case []any:
		for i, item := range value {
			flatten(t, fmt.Sprintf("%s[%02d]", path, i), item, into)
		}
		if len(value) > 0 {
			return
		}
	}
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	into[path] = string(text)
}

// TestFilesAreRenderedAsTheyAre compares what the charts render with their files, from which
// tests take CRDs, roles and admission policies.
func TestFilesAreRenderedAsTheyAre(t *testing.T) {
	t.Parallel()
	for chart, sources := range map[string][]string{
		hubChart:   {"crds/*.yaml", "rbac.yaml", "users.yaml", "admission/*.yaml"},
		agentChart: {"crds/*.yaml", "rbac.yaml", "door.yaml"},
	} {
		want := map[string]map[string]any{}
		for _, pattern := range sources {
			files, err := filepath.Glob(filepath.Join(chart, "files", pattern))
			if err != nil || len(files) == 0 {
				t.Fatalf("no files %s: %v", pattern, err)
			}
			for _, file := range files {
				maps.Copy(want, bare(objects(t, read(t, file))))
			}
		}
		args := []string{"--set", "nodeGroups.enabled=true,buffers.enabled=true,door.enabled=true"}
		if chart == hubChart {
			args = hubRequired
		}
		manifest, err := template(t, chart, args...)
		if err != nil {
			t.Fatal(err)
		}
		got := bare(objects(t, manifest))
		for name := range got {
			if _, expected := want[name]; !expected {
				delete(got, name)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s renders something else than its files (-want +got):\n%s", chart, diff)
		}
	}
}

// TestProgramsRenderWhatHelmDoes compares helm with deploy.Render, which `kubectl vdi
// install-agent` and the fleets of tests use.
func TestProgramsRenderWhatHelmDoes(t *testing.T) {
	t.Parallel()
	const served = "vdi.kasm.io/v1alpha1/PlacementPolicy" // the default policy is rendered
	for _, v := range variants {
		values := map[string]any{}
		if len(v.args) > 0 {
			if err := sigsyaml.Unmarshal([]byte(read(t, v.args[1])), &values); err != nil {
				t.Fatal(err)
			}
		}
		name := filepath.Base(v.chart)
		manifest, err := helm(t, append([]string{"template", name, v.chart, "--namespace", namespace, "--no-hooks", "--api-versions", served}, v.args...)...)
		if err != nil {
			t.Fatal(err)
		}
		got, err := deploy.Render(name, namespace, values, served)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(objects(t, manifest), got); diff != "" {
			t.Errorf("%s (-helm +deploy.Render):\n%s", v.name, diff)
		}
	}
	if _, err := deploy.Render(deploy.HubChart, namespace, map[string]any{"sessionNamespace": "desktops"}); err == nil || !strings.Contains(err.Error(), "sessionNamespace") {
		t.Errorf("a value that the schema lacks: %v", err)
	}
}

// bare returns objects by kind and name, without the metadata that a chart adds.
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

func TestAnotherNamespaceIsRenderedEverywhere(t *testing.T) {
	t.Parallel()
	for _, v := range variants {
		manifest, err := helm(t, append([]string{"template", "fleet", v.chart, "--namespace", "elsewhere"}, v.args...)...)
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range objects(t, manifest) {
			if slices.Contains([]string{"ConfigMap", "PrometheusRule", "CustomResourceDefinition"}, object.GetKind()) {
				continue // prose
			}
			if text := toYAML(t, object.Object); strings.Contains(text, namespace) {
				t.Errorf("%s: %s %s mentions %s", v.name, object.GetKind(), object.GetName(), namespace)
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
		t.Error("Kubernetes 1.31 is accepted, where the CRDs are not")
	}
}

// A load balancer that hides source addresses would make agents share an attacker's limits.
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
