package v1alpha1_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	vdi "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func TestDurationValue(t *testing.T) {
	for _, tc := range []struct {
		text vdi.Duration
		want time.Duration
		ok   bool
	}{
		{"8h", 8 * time.Hour, true},
		{"1h30m", 90 * time.Minute, true},
		{"0.5h", 30 * time.Minute, true},
		{"1500ms", 1500 * time.Millisecond, true},
		{"0s", 0, true},
		{"", 0, false},
		{"8", 0, false},
		{"8 h", 0, false},
		{"-8h", 0, false},
		{"9999999999h", 0, false},
	} {
		if got, ok := tc.text.Value(); got != tc.want || ok != tc.ok {
			t.Errorf("Value of %q is %v, %v; want %v, %v", tc.text, got, ok, tc.want, tc.ok)
		}
	}
}

func TestDurationOf(t *testing.T) {
	for _, tc := range []struct {
		d    time.Duration
		want vdi.Duration
	}{
		{90 * time.Minute, "1h30m0s"},
		{0, "0s"},
		{-time.Second, "0s"},
		{1234567 * time.Microsecond, "1.234s"},
		{999 * time.Microsecond, "0s"},
		{12 * time.Millisecond, "12ms"},
		{math.MaxInt64, "999999h0m0s"},
	} {
		if got := vdi.DurationOf(tc.d); got != tc.want {
			t.Errorf("DurationOf(%v) = %q, want %q", tc.d, got, tc.want)
		}
	}
}

func TestDurationSurvivesWriting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(999_999*time.Hour)).Draw(t, "nanoseconds"))
		got, ok := vdi.DurationOf(d).Value()
		if want := d.Truncate(time.Millisecond); !ok || got != want {
			t.Fatalf("%v written and read is %v, %v; want %v", d, got, ok, want)
		}
	})
}
