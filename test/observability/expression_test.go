package observability

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
)

// counters are the suffixes of counters, the only series that have a rate.
var counters = []string{"_total", "_bucket", "_sum", "_count"}

// problems returns what an expression queries that no binary exports. It calls used with each
// metric.
func problems(all map[string][]string, expr string, used func(series string)) []string {
	tree, err := parser.ParseExpr(expr)
	if err != nil {
		return []string{err.Error()}
	}
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	parser.Inspect(tree, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			labels, ok := labelsOf(all, n.Name)
			if !ok {
				add("no binary exports %s", n.Name)
				break
			}
			used(n.Name)
			for _, matcher := range n.LabelMatchers {
				if matcher.Name != "__name__" && !slices.Contains(labels, matcher.Name) {
					add("%s has no label %s", n.Name, matcher.Name)
				}
			}
		case *parser.AggregateExpr:
			labels := labelsWithin(all, n.Expr)
			for _, label := range n.Grouping {
				if !slices.Contains(labels, label) {
					add("nothing in %s has a label %s", n.Expr, label)
				}
			}
		case *parser.Call:
			if n.Func.Name != "rate" && n.Func.Name != "increase" {
				break
			}
			series := n.Args[0].(*parser.MatrixSelector).VectorSelector.(*parser.VectorSelector).Name
			if !slices.ContainsFunc(counters, func(suffix string) bool { return strings.HasSuffix(series, suffix) }) {
				add("%s of %s, which is no counter", n.Func.Name, series)
			}
		}
		return nil
	})
	return out
}

// labelsWithin returns the labels of all series in an expression.
func labelsWithin(all map[string][]string, expr parser.Expr) []string {
	out := slices.Clone(targetLabels)
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			labels, _ := labelsOf(all, selector.Name)
			out = append(out, labels...)
		}
		return nil
	})
	return out
}
