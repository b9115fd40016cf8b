package trace

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var plan = Plan{Seed: 7, Members: 4, Length: 24 * time.Hour, Load: 0.5, OtherPods: 0.1, Failures: true}

func TestAFileHoldsTheWholeTrace(t *testing.T) {
	written := Generate(plan)
	if len(written.Losses) == 0 || len(written.Pods) == 0 {
		t.Fatal("the trace has not all kinds in it")
	}
	var file bytes.Buffer
	if err := written.Write(&file); err != nil {
		t.Fatal(err)
	}
	read, err := Read(&file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(written, read); diff != "" {
		t.Errorf("(-written +read):\n%s", diff)
	}
}

func TestTheSeedDecides(t *testing.T) {
	if diff := cmp.Diff(Generate(plan), Generate(plan)); diff != "" {
		t.Errorf("the same seed makes something else:\n%s", diff)
	}
	other := plan
	other.Seed++
	if cmp.Equal(Generate(plan), Generate(other)) {
		t.Error("another seed makes the same")
	}
}

func TestAGeneratedTraceIsValidAndFollowsItsPlan(t *testing.T) {
	p := plan
	p.Length = 20 * 24 * time.Hour // so that randomness averages out
	made := Generate(p)
	if err := made.Validate(); err != nil {
		t.Fatal(err)
	}
	there := float64(made.cpu("")) * p.Length.Seconds()
	sessions, pods := 0.0, 0.0
	for i := range made.Sessions {
		if s := &made.Sessions[i]; s.GPU == 0 {
			sessions += float64(s.CPU) * s.Runs.Seconds()
		}
	}
	for i := range made.Pods {
		d := &made.Pods[i]
		if d.Runs < podLeast || d.Runs > podMost {
			t.Fatalf("a Pod runs for %s", d.Runs)
		}
		pods += float64(d.CPU) * d.Runs.Seconds()
	}
	// A deviation of 10% is several times the random one.
	if load := sessions / there; math.Abs(load-p.Load) > 0.1*p.Load {
		t.Errorf("sessions request %.3f of the fleet, not %.2f", load, p.Load)
	}
	if others := pods / there; math.Abs(others-p.OtherPods) > 0.1*p.OtherPods {
		t.Errorf("Pods request %.3f of the fleet, not %.2f", others, p.OtherPods)
	}
}

func TestArrivalsFollowTheDay(t *testing.T) {
	p := plan
	p.Length = 10 * 24 * time.Hour
	var byHour [24]int
	made := Generate(p)
	for i := range made.Sessions {
		byHour[int(made.Sessions[i].At.Hours())%24]++
	}
	// The rate swings between 25% and 175% of its mean.
	if ratio := float64(byHour[12]) / float64(byHour[0]); ratio < 4 {
		t.Errorf("at the busiest hour %.1f times as many arrive as at the quietest, not about 7 times", ratio)
	}
}

func TestAnInvalidFileIsRefusedWithTheCause(t *testing.T) {
	const header = "kind,at,duration,name,member,namespace,user,cpu,memory\n"
	const fleet = "member,,,a,,,,,\nnode,,,n,a,,,4000,8192\n"
	for name, c := range map[string]struct{ file, message string }{
		"nothing":                {"", "header"},
		"an unknown column":      {"kind,color\n", `"color"`},
		"an unknown kind":        {header + "planet,,,a,,,,,\n", `line 2: kind "planet"`},
		"no member":              {header, "no member"},
		"two of a name":          {header + fleet + "member,,,a,,,,,\n", "two of member a"},
		"a node of no member":    {header + fleet + "node,,,n,b,,,4000,8192\n", `"b"`},
		"a session for no time":  {header + fleet + "session,1,0,s,,ns,ada,1000,1\n", "no duration"},
		"a session of no user":   {header + fleet + "session,1,1,s,,,,1000,1\n", "no user"},
		"a time that is none":    {header + fleet + "session,soon,1,s,,ns,ada,1000,1\n", "line 4: column at"},
		"a negative size":        {header + fleet + "pod,1,1,p,a,,,-1000,1\n", "a negative amount"},
		"the loss of no node":    {header + fleet + "nodelost,1,1,other,a,,,,\n", "a/other"},
		"the loss of no member":  {header + fleet + "lost,1,1,,b,,,,\n", `"b"`},
		"a row that is too long": {header + "member,,,a,,,,,,,,\n", "wrong number of fields"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read(strings.NewReader(c.file))
			if err == nil || !strings.Contains(err.Error(), c.message) {
				t.Errorf("got %v, not an error with %q", err, c.message)
			}
		})
	}
}
