package observability

import (
	"regexp"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
	"sigs.k8s.io/yaml"
)

// alertCase has series for which an alert fires, and series for which it does not, in the
// notation of Prometheus' own rule tests: a sample a minute, and the rule is evaluated at
// minute 120. The "for" of a rule is not tested.
type alertCase struct {
	Alert string     `json:"alert"`
	Fires [][]string `json:"fires"`
	Quiet [][]string `json:"quiet"`
}

const (
	sampleEvery = time.Minute
	evaluatedAt = 120 * sampleEvery
)

var usedLabel = regexp.MustCompile(`\$labels\.([a-z]+)`)

func TestAlertsFireWhenTheyShould(t *testing.T) {
	t.Parallel()
	alerts := map[string]rule{}
	for _, of := range binaries {
		for _, r := range rules(t, of) {
			if r.Alert != "" {
				alerts[r.Alert] = r
			}
		}
	}
	var cases []alertCase
	if err := yaml.UnmarshalStrict(read(t, "testdata/alerts.yaml"), &cases); err != nil {
		t.Fatal(err)
	}
	engine := newEngine()
	for _, c := range cases {
		r, ok := alerts[c.Alert]
		if !ok || len(c.Fires) == 0 || len(c.Quiet) == 0 {
			t.Errorf("%s is no alert, or its case has nothing that fires or nothing that does not", c.Alert)
			continue
		}
		delete(alerts, c.Alert)
		for _, series := range c.Fires {
			result := evaluate(t, engine, r.Expr, series)
			if len(result) != 1 {
				t.Errorf("%s: want one alert, got %v with %q", c.Alert, result, series)
				continue
			}
			for _, text := range r.Annotations {
				for _, label := range usedLabel.FindAllStringSubmatch(text, -1) {
					if result[0].Metric.Get(label[1]) == "" {
						t.Errorf("%s names $labels.%s, and has %s", c.Alert, label[1], result[0].Metric)
					}
				}
			}
		}
		for _, series := range c.Quiet {
			if result := evaluate(t, engine, r.Expr, series); len(result) != 0 {
				t.Errorf("%s: want none, got %v with %q", c.Alert, result, series)
			}
		}
	}
	for name := range alerts {
		t.Errorf("%s has no case in testdata/alerts.yaml", name)
	}
}

func newEngine() *promql.Engine {
	return promql.NewEngine(promql.EngineOpts{MaxSamples: 100_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute})
}

// evaluate evaluates an expression at evaluatedAt, on series as in an alertCase.
func evaluate(t *testing.T, engine *promql.Engine, expr string, series []string) promql.Vector {
	t.Helper()
	query, err := engine.NewInstantQuery(t.Context(), memory(t, series), nil, expr, time.UnixMilli(evaluatedAt.Milliseconds()))
	if err != nil {
		t.Fatal(err)
	}
	defer query.Close()
	result := query.Exec(t.Context())
	vector, err := result.Vector()
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	return append(promql.Vector(nil), vector...)
}

// memory returns a storage of the series.
func memory(t *testing.T, descriptions []string) storage.Queryable {
	t.Helper()
	var all seriesSet
	for _, text := range descriptions {
		metric, values, err := parser.ParseSeriesDesc(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		var samples []chunks.Sample
		for i, value := range values {
			if !value.Omitted {
				samples = append(samples, sample{(time.Duration(i) * sampleEvery).Milliseconds(), value.Value})
			}
		}
		all = append(all, storage.NewListSeries(metric, samples))
	}
	return &storage.MockQueryable{MockQuerier: &storage.MockQuerier{
		SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
			return &cursor{all: all.matching(matchers), at: -1}
		},
	}}
}

// sample is a number at a time, in milliseconds (chunks.Sample).
type sample struct {
	at    int64
	value float64
}

func (s sample) T() int64                      { return s.at }
func (s sample) F() float64                    { return s.value }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }

type seriesSet []storage.Series

func (s seriesSet) matching(matchers []*labels.Matcher) seriesSet {
	var out seriesSet
	for _, one := range s {
		matches := true
		for _, m := range matchers {
			matches = matches && m.Matches(one.Labels().Get(m.Name))
		}
		if matches {
			out = append(out, one)
		}
	}
	return out
}

// cursor iterates over series (storage.SeriesSet).
type cursor struct {
	all seriesSet
	at  int
}

func (c *cursor) Next() bool                        { c.at++; return c.at < len(c.all) }
func (c *cursor) At() storage.Series                { return c.all[c.at] }
func (c *cursor) Err() error                        { return nil }
func (c *cursor) Warnings() annotations.Annotations { return nil }
