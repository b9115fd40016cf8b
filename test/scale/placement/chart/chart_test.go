package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

func drawn(t *testing.T, c *Chart) string {
	t.Helper()
	var out bytes.Buffer
	if err := c.Write(&out); err != nil {
		t.Fatal(err)
	}
	decoder := xml.NewDecoder(bytes.NewReader(out.Bytes()))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			return out.String()
		} else if err != nil {
			t.Fatalf("this is no XML: %v\n%s", err, out.String())
		}
	}
}

func TestEachSeriesIsALineFromEndToEndOfTheAxes(t *testing.T) {
	out := drawn(t, &Chart{
		Title: "a < b & c",
		X:     Axis{Low: 0, High: 10},
		Y:     Axis{Low: 0, High: 1},
		Series: []Series{
			{Name: "rising", Points: []Point{{0, 0}, {5, 0.5}, {10, 1}}},
			{Name: "beyond", Points: []Point{{-5, -1}, {20, 2}}},
		},
	})
	for _, line := range []string{
		fmt.Sprintf(`d="M%d.0 %d.0L%.1f %.1fL%d.0 %d.0"`, left, height-bottom, (left+width-right)/2.0, (top+height-bottom)/2.0, width-right, top),
		fmt.Sprintf(`d="M%d.0 %d.0L%d.0 %d.0"`, left, height-bottom, width-right, top), // kept within the axes
		">rising<", ">beyond<", "a &lt; b &amp; c",
	} {
		if !strings.Contains(out, line) {
			t.Errorf("there is no %s in\n%s", line, out)
		}
	}
}

func TestALogarithmicAxisGivesEachPowerTheSameLength(t *testing.T) {
	a := Axis{Low: 0.1, High: 1000, Log: true}
	for v, want := range map[float64]float64{0: 0, 0.1: 0, 1: 0.25, 10: 0.5, 1000: 1, 5000: 1} {
		if got := a.part(v); got < want-1e-9 || got > want+1e-9 {
			t.Errorf("%g is at %g, not at %g", v, got, want)
		}
	}
}

type broken struct{}

var errBroken = errors.New("the disk is full")

func (broken) Write([]byte) (int, error) { return 0, errBroken }

func TestAFailedWriteIsReported(t *testing.T) {
	if err := (&Chart{}).Write(broken{}); !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
}
