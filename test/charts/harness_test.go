package charts

import (
	goflag "flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/vdi-fleet/vdi-fleet/agent"
	"github.com/vdi-fleet/vdi-fleet/hub"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// fleets are the options that decide which flags the harness sets.
var fleets = []harness.Options{
	{TimeFactor: 0.2},
	{TimeFactor: 0.2, Enroll: true},
	{TimeFactor: 0.2, Kubelets: true},
}

// TestTheHarnessUsesTheFlagsOfTheCharts compares the values of the flags of the charts with
// those of the harness: harness.Differences has to list every flag that differs, and no
// other.
func TestTheHarnessUsesTheFlagsOfTheCharts(t *testing.T) {
	t.Parallel()
	differ := map[string]bool{}
	for _, options := range fleets {
		hubArgs, agentArgs, err := harness.Flags(options)
		if err != nil {
			t.Fatal(err)
		}
		for program, args := range map[string][]string{"hub": hubArgs, "agent": agentArgs} {
			for _, flag := range differing(t, program, args) {
				differ[program+" --"+flag] = true
			}
		}
	}
	for _, d := range harness.Differences {
		name := d.Program + " --" + d.Flag
		switch {
		case d.Because == "":
			t.Errorf("%s: Because is empty", name)
		case len(d.In) == 0 && !differ[name]:
			t.Errorf("%s is as in the chart: Differences of test/harness/flags.go need not explain it", name)
		case len(d.In) > 0:
			for _, folder := range d.In {
				if !names(t, filepath.Join(root, "test", folder), "--"+d.Flag) {
					t.Errorf("nothing in test/%s sets %s any more", folder, name)
				}
			}
			continue
		}
		delete(differ, name)
	}
	for name := range differ {
		t.Errorf("%s differs from the chart's: ship it, or explain why not in Differences of test/harness/flags.go", name)
	}
}

// A flag that only a suite sets is rejected when its fleet starts.
func TestAFleetRefusesUndocumentedFlags(t *testing.T) {
	t.Parallel()
	for _, options := range []harness.Options{
		{Args: harness.Args{Hub: []string{"--link-max-streams=1"}}},
		{Args: harness.Args{Agents: []string{"--guard-port=1"}}},
		{Args: harness.Args{Members: map[string][]string{"eu-west": {"--tls-secret=a"}}}},
	} {
		if _, _, err := harness.Flags(options); err == nil || !strings.Contains(err.Error(), "Differences") {
			t.Errorf("%+v: %v", options, err)
		}
	}
	if _, _, err := harness.Flags(harness.Options{Args: harness.Args{Agents: []string{"--fail-after=5s"}}}); err != nil {
		t.Error(err)
	}
}

// differing returns the flags of a program whose value differs from that of its chart.
func differing(t *testing.T, program string, args []string) []string {
	t.Helper()
	ships := variants[hubDefaults]
	if program == "agent" {
		ships = variants[agentDefaults]
	}
	shipped := values(t, program, arguments(t, deploymentOf(t, ships)))
	tested := values(t, program, args)
	var out []string
	for flag, value := range tested {
		if shipped[flag] != value {
			out = append(out, flag)
		}
	}
	slices.Sort(out)
	return out
}

// values returns the values of all flags of a program with these arguments.
func values(t *testing.T, program string, args []string) map[string]string {
	t.Helper()
	flags := pflag.NewFlagSet(program, pflag.ContinueOnError)
	flags.String("kubeconfig", "", "") // controller-runtime's
	logs := goflag.NewFlagSet("logs", goflag.ContinueOnError)
	(&zap.Options{}).BindFlags(logs)
	flags.AddGoFlagSet(logs)
	if program == "hub" {
		(&hub.Options{}).AddFlags(flags)
	} else {
		(&agent.Options{}).AddFlags(flags)
	}
	if err := flags.Parse(args); err != nil {
		t.Fatalf("%s %q: %v", program, args, err)
	}
	out := map[string]string{}
	flags.VisitAll(func(f *pflag.Flag) { out[f.Name] = f.Value.String() })
	for flag, otherwise := range map[string]string{"zap-log-level": "info", "zap-encoder": "json"} {
		if out[flag] == "" { // zap does not expose its defaults
			out[flag] = otherwise
		}
	}
	return out
}

// names reports whether a Go file of a folder has the text.
func names(t *testing.T, folder, text string) (found bool) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		content, err := os.ReadFile(path)
		found = found || strings.Contains(string(content), text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
