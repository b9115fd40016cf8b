package observability

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	_ "github.com/vdi-fleet/vdi-fleet/agent" // their metrics
	_ "github.com/vdi-fleet/vdi-fleet/agent/door"
	_ "github.com/vdi-fleet/vdi-fleet/hub"
	_ "github.com/vdi-fleet/vdi-fleet/hub/console"
)

const observability = "../../deploy/observability"

// chartOf returns the directory that has the rules and the dashboard of a program.
func chartOf(program string) string { return "../../deploy/charts/vdi-" + program + "/files" }

// targetLabels are the labels that Prometheus adds for the target of a scrape.
var targetLabels = []string{"job", "instance", "pod", "node", "namespace"}

var descriptor = regexp.MustCompile(`^Desc\{fqName: "([^"]+)", help: .*, constLabels: \{\}, variableLabels: \{([^}]*)\}\}$`)

// exported returns the labels of each metric that the binaries register, by name.
func exported(t *testing.T) map[string][]string {
	t.Helper()
	registry, ok := metrics.Registry.(prometheus.Collector)
	if !ok {
		t.Fatalf("the registry, a %T, does not describe itself", metrics.Registry)
	}
	descriptors := make(chan *prometheus.Desc)
	go func() {
		registry.Describe(descriptors)
		close(descriptors)
	}()
	out := map[string][]string{}
	for d := range descriptors {
		parts := descriptor.FindStringSubmatch(d.String())
		if parts == nil {
			continue // metrics of the Go runtime, with constant labels
		}
		out[parts[1]] = slices.DeleteFunc(strings.Split(parts[2], ","), func(label string) bool { return label == "" })
	}
	return out
}

// labelsOf returns the labels of a series by its name, with those of histograms; false if
// there is no such metric.
func labelsOf(all map[string][]string, series string) ([]string, bool) {
	if labels, ok := all[series]; ok {
		return slices.Concat(labels, targetLabels), true
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, cut := strings.CutSuffix(series, suffix); cut {
			if labels, ok := all[base]; ok {
				return slices.Concat(labels, targetLabels, []string{"le"}), true
			}
		}
	}
	return nil, false
}

func TestMetricsOfTheProjectAreFound(t *testing.T) {
	t.Parallel()
	all := exported(t)
	for name, want := range map[string][]string{
		"vdi_hub_members":                           {"health"},
		"vdi_hub_member_sessions":                   {"member", "region"},
		"vdi_hub_session_start_seconds":             {},
		"vdi_agent_session_rejections_total":        {"kind", "reason"},
		"controller_runtime_reconcile_errors_total": {"controller"},
	} {
		if got, ok := all[name]; !ok || !slices.Equal(slices.Sorted(slices.Values(got)), want) {
			t.Errorf("%s has labels %q, want %q", name, got, want)
		}
	}
	fleet := slices.DeleteFunc(slices.Collect(maps.Keys(all)), func(name string) bool { return !strings.HasPrefix(name, "vdi_") })
	if len(fleet) < 50 {
		t.Errorf("only %d metrics of the fleet: %q", len(fleet), fleet)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
