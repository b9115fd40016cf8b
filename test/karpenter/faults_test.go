package main

import (
	"strings"
	"testing"
	"time"
)

func TestFaultsOfANodePool(t *testing.T) {
	data := map[string]string{
		// As package test/harness/karpenter writes them.
		"scarce": `{"devices":"never","insufficientCapacity":"no capacity in a","registration":"1m30s","startupTaints":"0s"}`,
		"empty":  `{}`,
	}
	for pool, want := range map[string]faults{
		"scarce": {InsufficientCapacity: "no capacity in a", Registration: delay(90 * time.Second), Devices: never},
		"empty":  {},
		"absent": {},
	} {
		if got, err := parseFaults(data, pool); err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", pool, got, err, want)
		}
	}
}

func TestFaultsThatAreMisspelledAreRejected(t *testing.T) {
	for raw, want := range map[string]string{
		`{"device":"never"}`:         "unknown field",
		`{"devices":"soon"}`:         "soon",
		`{"registration":"-1s"}`:     "negative",
		`{"insufficientCapacity":1}`: "cannot unmarshal",
		`{"insufficientCapacity"`:    "unexpected EOF",
	} {
		if _, err := parseFaults(map[string]string{"desktops": raw}, "desktops"); err == nil ||
			!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "NodePool desktops") {
			t.Errorf("%s: %v, want %q", raw, err, want)
		}
	}
}

func TestDelays(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	minute := delay(time.Minute)
	for _, test := range []struct {
		name      string
		got, want delay
	}{
		{"sum", minute.plus(minute), 2 * minute},
		{"sum with never", minute.plus(never), never},
		{"never and a sum", never.plus(minute), never},
		{"not over", minute.left(start, start.Add(10*time.Second)), delay(50 * time.Second)},
		{"over", minute.left(start, start.Add(70*time.Second)), delay(-10 * time.Second)},
		{"none", delay(0).left(start, start), 0},
		{"without an end", never.left(start, start.Add(1000*time.Hour)), never},
	} {
		if test.got != test.want {
			t.Errorf("%s: %d, want %d", test.name, test.got, test.want)
		}
	}
}
