package observability

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
)

// dashboard has the fields of a Grafana dashboard that are checked.
type dashboard struct {
	UID    string  `json:"uid"`
	Title  string  `json:"title"`
	Panels []panel `json:"panels"`
}

type panel struct {
	ID      int    `json:"id"`
	Type    string `json:"type"`
	Title   string `json:"title"`
	GridPos struct {
		X, Y, W, H int
	} `json:"gridPos"`
	Targets []struct {
		Expr         string `json:"expr"`
		LegendFormat string `json:"legendFormat"`
	} `json:"targets"`
}

func dashboardOf(t *testing.T, of string) dashboard {
	t.Helper()
	var d dashboard
	if err := json.Unmarshal(read(t, filepath.Join(chartOf(of), "dashboard.json")), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

var legendLabel = regexp.MustCompile(`\{\{ ?([a-z_]+) ?\}\}`)

func TestDashboardsQueryAllExportedMetricsAndNoOthers(t *testing.T) {
	t.Parallel()
	all := exported(t)
	for _, of := range binaries {
		shown := map[string]bool{}
		for _, p := range dashboardOf(t, of).Panels {
			for _, target := range p.Targets {
				expr := strings.ReplaceAll(target.Expr, "$__rate_interval", "5m")
				for _, problem := range problems(all, expr, func(series string) { shown[series] = true }) {
					t.Errorf("%s: %s", p.Title, problem)
				}
				tree, err := parser.ParseExpr(expr)
				if err != nil {
					continue // reported already
				}
				for _, label := range legendLabel.FindAllStringSubmatch(target.LegendFormat, -1) {
					if !slices.Contains(labelsWithin(all, tree), label[1]) {
						t.Errorf("%s: no label %s for the legend", p.Title, label[1])
					}
				}
			}
		}
		for _, metric := range slices.Sorted(maps.Keys(all)) {
			theirs := strings.HasPrefix(metric, "vdi_"+of+"_") || strings.HasPrefix(metric, "vdi_"+besides[of]+"_")
			if theirs && !shown[metric] && !shown[metric+"_bucket"] {
				t.Errorf("the dashboard of the %s does not show %s", of, metric)
			}
		}
	}
}

func TestUseIsDividedByTemplateAndRegion(t *testing.T) {
	t.Parallel()
	var expr string
	for _, p := range dashboardOf(t, "hub").Panels {
		if p.Title == "Share in use by template and region" {
			expr = p.Targets[0].Expr
		}
	}
	result := evaluate(t, newEngine(), expr, []string{
		`vdi_hub_member_sessions{member="a",region="eu",pod="x"} 30x120`, `vdi_hub_member_sessions{member="b",region="eu",pod="x"} 30x120`,
		`vdi_hub_member_sessions{member="c",region="us",pod="x"} 0x120`,
		`vdi_hub_template_slots{template="browser",region="eu",pod="x"} 40x120`, `vdi_hub_template_slots{template="gpu",region="eu",pod="x"} 0x120`,
		`vdi_hub_template_slots{template="browser",region="us",pod="x"} 10x120`,
	})
	got := map[string]float64{}
	for _, one := range result {
		got[one.Metric.Get("template")+" "+one.Metric.Get("region")] = one.F
	}
	if want := map[string]float64{"browser eu": 0.6, "gpu eu": 1, "browser us": 0}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestPanelsDoNotOverlap(t *testing.T) {
	t.Parallel()
	for _, of := range binaries {
		d := dashboardOf(t, of)
		ids := map[int]bool{}
		for i, p := range d.Panels {
			if ids[p.ID] || p.Title == "" || (len(p.Targets) == 0) != (p.Type == "row") {
				t.Errorf("%s: panel %d %q has another's id, no title or no question", d.Title, p.ID, p.Title)
			}
			ids[p.ID] = true
			a := p.GridPos
			if a.X < 0 || a.W < 1 || a.H < 1 || a.X+a.W > 24 {
				t.Errorf("%s: %s is outside", d.Title, p.Title)
			}
			for _, q := range d.Panels[:i] {
				b := q.GridPos
				if a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
					t.Errorf("%s: %s covers %s", d.Title, p.Title, q.Title)
				}
			}
		}
	}
}

// TestDashboardsHaveThePanelsThatOperatorsNeed compares the rows with the list in the README.
func TestDashboardsHaveThePanelsThatOperatorsNeed(t *testing.T) {
	t.Parallel()
	var rows []string
	for _, p := range dashboardOf(t, "hub").Panels {
		if p.Type == "row" {
			rows = append(rows, p.Title)
		}
	}
	want := []string{"Fleet health", "Capacity and use", "Pending sessions", "Placement and start", "Failovers", "Link", "Certificates", "Replicas", "Console"}
	if !slices.Equal(rows, want) {
		t.Errorf("rows are %q, want %q", rows, want)
	}
}
