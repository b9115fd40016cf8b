package observability

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// ruleFile is a file of rules as Prometheus reads it.
type ruleFile struct {
	Groups []struct {
		Name  string `json:"name"`
		Rules []rule `json:"rules"`
	} `json:"groups"`
}

type rule struct {
	Alert       string            `json:"alert,omitempty"`
	Record      string            `json:"record,omitempty"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// rules returns the rules of a program, "hub" or "agent".
func rules(t *testing.T, of string) []rule {
	t.Helper()
	var file ruleFile
	if err := yaml.UnmarshalStrict(read(t, filepath.Join(chartOf(of), "rules.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	var all []rule
	for _, group := range file.Groups {
		if !strings.HasPrefix(group.Name, "vdi-"+of+".") {
			t.Errorf("group %s is among the rules of the %s", group.Name, of)
		}
		all = append(all, group.Rules...)
	}
	return all
}

var binaries = []string{"hub", "agent"}

// besides are the processes that the charts of the binaries install besides them.
var besides = map[string]string{"hub": "console", "agent": "door"}

func TestRulesQueryExportedMetrics(t *testing.T) {
	t.Parallel()
	all := exported(t)
	for _, of := range binaries {
		for _, r := range rules(t, of) {
			others := func(series string) {
				if strings.HasPrefix(series, "vdi_") && !strings.HasPrefix(series, "vdi_"+of+"_") && !strings.HasPrefix(series, "vdi_"+besides[of]+"_") {
					t.Errorf("%s%s is among the rules of the %s and queries %s", r.Alert, r.Record, of, series)
				}
			}
			for _, problem := range problems(all, r.Expr, others) {
				t.Errorf("%s%s: %s", r.Alert, r.Record, problem)
			}
		}
	}
}

var recorded = regexp.MustCompile(`^[a-z_]+:(vdi_(hub|agent)_[a-z_]+):[a-z0-9_]+$`)

func TestRecordedNamesFollowTheConvention(t *testing.T) {
	t.Parallel()
	all := exported(t)
	for _, of := range binaries {
		for _, r := range rules(t, of) {
			if r.Record == "" {
				continue
			}
			parts := recorded.FindStringSubmatch(r.Record)
			if parts == nil {
				t.Errorf("%s is not LEVEL:METRIC:OPERATION", r.Record)
				continue
			}
			_, gauge := all[parts[1]]
			_, counter := all[parts[1]+"_total"]
			if !gauge && !counter {
				t.Errorf("%s: there is no metric %s", r.Record, parts[1])
			}
		}
	}
}

const runbook = "https://github.com/vdi-fleet/vdi-fleet/blob/main/deploy/observability/README.md#"

// placeholders are the template expressions of annotations that the rules use.
var placeholders = regexp.MustCompile(`\{\{ (\$labels\.[a-z]+|\$value( \| (humanize|humanizeDuration|humanizePercentage|printf "%\.[0-9]f"))?) \}\}`)

func TestEachAlertHasAMeaningAndARemedy(t *testing.T) {
	t.Parallel()
	readme := string(read(t, filepath.Join(observability, "README.md")))
	seen := map[string]bool{}
	for _, of := range binaries {
		for _, r := range rules(t, of) {
			if r.Alert == "" {
				continue
			}
			if seen[r.Alert] {
				t.Errorf("there are two alerts %s", r.Alert)
			}
			seen[r.Alert] = true
			if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) {
				t.Errorf("%s has severity %q", r.Alert, r.Labels["severity"])
			}
			anchor := strings.ToLower(r.Alert)
			if r.Annotations["runbook_url"] != runbook+anchor {
				t.Errorf("%s has runbook_url %q", r.Alert, r.Annotations["runbook_url"])
			}
			if !strings.Contains(readme, `| <a id="`+anchor+`"></a>`+r.Alert+" | ") {
				t.Errorf("%s has no line in README.md", r.Alert)
			}
			for _, name := range []string{"summary", "description"} {
				text := r.Annotations[name]
				if text == "" || strings.Contains(placeholders.ReplaceAllString(text, ""), "{{") {
					t.Errorf("%s of %s: %q", name, r.Alert, text)
				}
			}
		}
	}
	for _, line := range strings.Split(readme, "\n") {
		if name, isAlert := strings.CutPrefix(line, `| <a id="`); isAlert {
			_, name, _ = strings.Cut(name, "</a>")
			if name, _, _ = strings.Cut(name, " | "); !seen[name] {
				t.Errorf("README.md documents %s, which is no alert", name)
			}
		}
	}
}
