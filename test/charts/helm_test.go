package charts

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

var update = flag.Bool("update", false, "write the golden files")

const (
	root       = "../.."
	namespace  = "vdi-system"
	hubChart   = root + "/deploy/charts/vdi-hub"
	agentChart = root + "/deploy/charts/vdi-agent"
)

// hubRequired are the values that the hub's chart has no default for.
var hubRequired = []string{"-f", "testdata/hub.values.yaml"}

// variant is a chart with values.
type variant struct {
	name, chart string
	args        []string
}

// variants are the charts with only the required values, with every value changed that can
// be, and with everything optional omitted.
var variants = []variant{
	hubDefaults:   {"hub", hubChart, hubRequired},
	hubAll:        {"hub-all", hubChart, []string{"-f", "testdata/hub-all.values.yaml"}},
	hubLeast:      {"hub-least", hubChart, []string{"-f", "testdata/hub-least.values.yaml"}},
	agentDefaults: {"agent", agentChart, nil},
	agentJoins:    {"agent-joins", agentChart, []string{"-f", "testdata/agent-joins.values.yaml"}},
	agentAll:      {"agent-all", agentChart, []string{"-f", "testdata/agent-all.values.yaml"}},
	agentLeast:    {"agent-least", agentChart, []string{"-f", "testdata/agent-least.values.yaml"}},
}

// The indexes of variants.
const (
	hubDefaults = iota
	hubAll
	hubLeast
	agentDefaults
	agentJoins
	agentAll
	agentLeast
)

// binary returns the path of a tool in bin/.
func binary(t *testing.T, name, target string) string {
	t.Helper()
	dir, err := harness.Root()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "bin", name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("bin/%s is missing: run `make %s`", name, target)
	}
	return path
}

// helm runs helm with a home directory of its own, and returns its output.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary(t, "helm", "bin/helm"), args...)
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("helm %s: %w\n%s%s", strings.Join(args, " "), err, out.String(), problems.String())
	}
	return out.String(), nil
}

// template renders a chart as release "fleet" in the tests' namespace.
func template(t *testing.T, chart string, args ...string) (string, error) {
	t.Helper()
	return helm(t, append([]string{"template", "fleet", chart, "--namespace", namespace}, args...)...)
}

// manifests caches the manifests of the variants, by name.
var manifests sync.Map

func (v variant) manifest(t *testing.T) string {
	t.Helper()
	if text, rendered := manifests.Load(v.name); rendered {
		return text.(string)
	}
	text, err := template(t, v.chart, v.args...)
	if err != nil {
		t.Fatal(err)
	}
	manifests.Store(v.name, text)
	return text
}

// objects returns the objects of a manifest.
func objects(t *testing.T, manifest string) []*unstructured.Unstructured {
	t.Helper()
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifest), 4096)
	var all []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(object.Object) > 0 {
			all = append(all, object)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func toYAML(t *testing.T, value any) string {
	t.Helper()
	text, err := sigsyaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func expectGolden(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(read(t, path), got); diff != "" {
		t.Errorf("differs from %s (-want +got), write it with -update:\n%s", path, diff)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
