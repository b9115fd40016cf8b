package karpenter

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestDefaults(t *testing.T) {
	options, err := Options{}.WithDefaults("eu-west")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"eu-west-a", "eu-west-b", "eu-west-c"}; !slices.Equal(options.Zones, want) || options.Region != "eu-west" {
		t.Errorf("the zones of %s are %v, want %v", options.Region, options.Zones, want)
	}
	if options, err = (Options{Region: "us-east"}).WithDefaults("eu-west"); err != nil || options.Zones[0] != "us-east-a" {
		t.Errorf("%v, %v", options.Zones, err)
	}
	if len(options.InstanceTypes) != 2 {
		t.Errorf("there are %d instance types, want 2", len(options.InstanceTypes))
	}
}

func TestOptionsThatKarpenterWouldNotFollow(t *testing.T) {
	for want, options := range map[string]Options{
		"no region":            {},
		"no name of its own":   {Region: "a", NodePools: []NodePool{{Name: "x"}, {Name: "x"}}},
		"not in whole seconds": {Region: "a", NodePools: []NodePool{{Name: "x", RegistrationDelay: 1500 * time.Millisecond}}},
	} {
		if _, err := options.WithDefaults(""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestEnvironment(t *testing.T) {
	dir := t.TempDir()
	options, err := Options{Env: []string{"LOG_LEVEL=debug"}}.WithDefaults("eu-west")
	if err != nil {
		t.Fatal(err)
	}
	env, err := options.Environment(dir, "/kubeconfig", Ports{Metrics: 1, Probe: 2})
	if err != nil {
		t.Fatal(err)
	}
	types := filepath.Join(dir, "instance-types.json")
	for _, want := range []string{
		"KUBECONFIG=/kubeconfig", "METRICS_PORT=1", "HEALTH_PROBE_PORT=2", "DISABLE_LEADER_ELECTION=true", "INSTANCE_TYPES_FILE_PATH=" + types,
	} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is missing in %v", want, env)
		}
	}
	if env[len(env)-1] != "LOG_LEVEL=debug" {
		t.Errorf("the options do not come last: %v", env)
	}
	raw, err := os.ReadFile(types)
	if err != nil {
		t.Fatal(err)
	}
	var stored []instanceType
	if err := json.Unmarshal(raw, &stored); err != nil {
		t.Fatal(err)
	}
	gpus := stored[1].Resources["nvidia.com/gpu"]
	if len(stored) != 2 || len(stored[0].Offerings) != 3 || stored[0].Offerings[1].Requirements[1].Values[0] != "eu-west-b" || gpus.Value() != 4 {
		t.Errorf("the instance types are %s", raw)
	}
	options.InstanceTypesFile = "/types.json"
	if env, err = options.Environment("/none", "", Ports{}); err != nil || !slices.Contains(env, "INSTANCE_TYPES_FILE_PATH=/types.json") {
		t.Errorf("%v, %v", env, err)
	}
}

func TestObjectsOfANodePool(t *testing.T) {
	objects, err := NodePool{
		Name: "desktops", Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("32")},
		Labels: map[string]string{"pool": "desktops"}, Taints: []corev1.Taint{{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}},
		InstanceTypes: []string{"standard-16"}, RegistrationDelay: 20 * time.Second,
	}.Objects()
	if err != nil {
		t.Fatal(err)
	}
	class, pool := objects[0], objects[1]
	for path, want := range map[string]any{
		"spec.nodeRegistrationDelay": "20s", "metadata.name": "desktops", "kind": "KWOKNodeClass",
	} {
		if got := at(class, path); got != want {
			t.Errorf("%s of the class is %v, want %v", path, got, want)
		}
	}
	for path, want := range map[string]any{
		"spec.limits.cpu":                     "32",
		"spec.template.metadata.labels.pool":  "desktops",
		"spec.template.spec.expireAfter":      "Never",
		"spec.disruption.consolidateAfter":    "Never",
		"spec.disruption.consolidationPolicy": "WhenEmpty",
		"spec.template.spec.nodeClassRef": map[string]any{
			"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "desktops",
		},
		"spec.template.spec.taints": []any{map[string]any{"key": "dedicated", "effect": "NoSchedule"}},
	} {
		if got := at(pool, path); !reflect.DeepEqual(got, want) {
			t.Errorf("%s of the NodePool is %v, want %v", path, got, want)
		}
	}
	requirements, _ := at(pool, "spec.template.spec.requirements").([]any)
	if len(requirements) != 4 {
		t.Errorf("the requirements are %v, want 4", requirements)
	}
}

func TestAnEmptyNodeIsConsolidatedOnlyIfAsked(t *testing.T) {
	objects, err := NodePool{Name: "desktops", ConsolidateAfter: time.Minute}.Objects()
	if err != nil {
		t.Fatal(err)
	}
	if got := at(objects[1], "spec.disruption.consolidateAfter"); got != "60s" {
		t.Errorf("consolidateAfter is %v, want 60s", got)
	}
}

func TestFaultsAreStoredAsKarpenterReadsThem(t *testing.T) {
	data, err := faultsData(map[string]Faults{
		"scarce": {InsufficientCapacity: "no capacity in a", Registration: Delay(90 * time.Second), Devices: Never},
	})
	if err != nil {
		t.Fatal(err)
	}
	// faults_test.go of test/karpenter reads this.
	want := `{"devices":"never","insufficientCapacity":"no capacity in a","registration":"1m30s","startupTaints":"0s"}`
	if data["scarce"] != want {
		t.Errorf("the faults are %s, want %s", data["scarce"], want)
	}
}

// at returns the field of an object at a path.
func at(object *unstructured.Unstructured, path string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(object.Object, strings.Split(path, ".")...)
	return value
}
