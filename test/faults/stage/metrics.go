package stage

import (
	"fmt"
	"strconv"
	"strings"
)

// Values returns the values of metrics without labels.
func Values(metrics string, names ...string) ([]float64, error) {
	found := Series(metrics)
	values := make([]float64, len(names))
	for i, name := range names {
		value, there := found[name]
		if !there {
			return nil, fmt.Errorf("there is no metric %s", name)
		}
		values[i] = value
	}
	return values, nil
}

// Series returns all metrics, by name and labels.
func Series(metrics string) map[string]float64 {
	found := map[string]float64{}
	for line := range strings.Lines(metrics) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			if n, err := strconv.ParseFloat(value, 64); err == nil {
				found[name] = n
			}
		}
	}
	return found
}

// Sum adds up a metric over its labels.
func Sum(all map[string]float64, name string) (total float64) {
	for series, value := range all {
		if strings.HasPrefix(series, name+"{") {
			total += value
		}
	}
	return total
}
