package observer_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/vdi-fleet/vdi-fleet/test/observer"
)

// at returns a line of a log for a short form: "30 start a desktop of s" means that at 30 the
// container desktop of Pod a, of session s, starts.
func at(member, short string) string {
	var when int64
	var what, pod, container, session string
	_, _ = fmt.Sscanf(short, "%d %s %s %s of %s", &when, &what, &pod, &container, &session)
	line := fmt.Sprintf(`{"boottime":%d,"wall":"2026-01-01T00:00:00Z","member":%q,"what":%q`, when, member, what)
	if pod != "" {
		line += fmt.Sprintf(`,"node":"n","podUID":%q,"namespace":"desktops","pod":%q,"container":%q,"session":%q`, pod, pod, container, session)
	}
	return line + "}\n"
}

// logs writes the log of each member, under its name. Lines that begin with { are written
// as they are.
func logs(t testing.TB, members map[string][]string) []string {
	t.Helper()
	var paths []string
	dir := t.TempDir()
	for member, lines := range members {
		var content strings.Builder
		for _, line := range lines {
			if strings.HasPrefix(line, "{") {
				content.WriteString(line)
				continue
			}
			content.WriteString(at(member, line))
		}
		path := filepath.Join(dir, member+".jsonl")
		if err := os.WriteFile(path, []byte(content.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

// spans returns overlaps as "session from-to", with * for an open end.
func spans(overlaps []observer.Overlap) []string {
	var spans []string
	for _, o := range overlaps {
		end := fmt.Sprint(int64(o.To))
		if o.First.Open && o.Second.Open {
			end = "*"
		}
		spans = append(spans, fmt.Sprintf("%s %d-%s", o.Session, int64(o.From), end))
	}
	return spans
}

func TestOverlapsAreSeen(t *testing.T) {
	type members = map[string][]string
	cases := map[string]struct {
		logs members
		// want are the overlaps without an excuse, strict those of a session that may run in
		// two members.
		want, strict []string
	}{
		"one after the other": {logs: members{
			"eu": {"1 boot", "10 start a desktop of s", "20 stop a desktop of s", "30 exit a desktop of s"},
			"us": {"1 boot", "30 start b desktop of s"},
		}},
		"two members at once": {logs: members{
			"eu": {"1 boot", "10 start a desktop of s", "30 exit a desktop of s"},
			"us": {"1 boot", "29 start b desktop of s"},
		}, want: []string{"s 29-30"}},
		"one that got SIGTERM, and has not ended": {logs: members{
			"eu": {"1 boot", "10 start a desktop of s", "20 stop a desktop of s"},
			"us": {"1 boot", "25 start b desktop of s"},
		}, want: []string{"s 25-*"}},
		"two Pods in one member": {logs: members{
			"eu": {"1 boot", "10 start a desktop of s", "15 start b desktop of s", "30 exit a desktop of s"},
		}, want: []string{"s 15-30"}, strict: []string{"s 15-30"}},
		"guards of one session": {logs: members{
			"eu": {"1 boot", "10 start a vdi-guard of s"},
			"us": {"1 boot", "10 start b vdi-guard of s", "11 start b desktop of s"},
		}},
		"two sessions": {logs: members{
			"eu": {"1 boot", "10 start a desktop of s"},
			"us": {"1 boot", "10 start b desktop of r"},
		}},
		"Pods of no session": {logs: members{
			"eu": {"1 boot", "10 start a desktop of"},
			"us": {"1 boot", "10 start b desktop of"},
		}},
		"a power cut ends what ran": {logs: members{
			"eu": {"1 boot", "10 start a desktop of s", "20 power-off"},
			"us": {"1 boot", "20 start b desktop of s"},
		}},
		"and not a moment before": {logs: members{
			"eu": {"1 boot", "10 start a desktop of s", "20 power-off"},
			"us": {"1 boot", "19 start b desktop of s"},
		}, want: []string{"s 19-20"}},
		"a power cut in another member ends nothing": {logs: members{
			"eu": {"1 boot", "10 start a desktop of s"},
			"us": {"1 boot", "12 power-off", "13 boot", "20 start b desktop of s"},
		}, want: []string{"s 20-*"}},
		"a restarted kubelet has no earlier runs": {logs: members{
			"eu": {"1 boot", "10 start a desktop of s", "40 boot", "50 start c desktop of s"},
			"us": {"1 boot", "30 start b desktop of s", "45 exit b desktop of s"},
		}, want: []string{"s 30-40"}},
		"three at once": {logs: members{
			"eu": {"1 boot", "10 start a desktop of s", "20 exit a desktop of s"},
			"us": {"1 boot", "12 start b desktop of s", "22 exit b desktop of s"},
			"ap": {"1 boot", "14 start c desktop of s", "24 exit c desktop of s"},
		}, want: []string{"s 12-20", "s 14-20", "s 14-22"}},
		"a start that was not written out did not happen": {logs: members{
			"eu": {"1 boot", `{"boottime":20,"wall":"2026-01-01T00:00:00Z","member":"eu","what":"sta`},
			"us": {"1 boot", "10 start b desktop of s"},
		}},
		"an end that was not written out did not happen either": {logs: members{
			"eu": {"1 boot", "10 start a desktop of s", `{"boottime":20,"member":"eu","what":"exit","podUID":"a","conta`},
			"us": {"1 boot", "30 start b desktop of s"},
		}, want: []string{"s 30-*"}},
		"until the power cut that tore its line": {logs: members{
			"eu": {"1 boot", "10 start a desktop of s", `{"boottime":20,"member":"eu","what":"exit","podU` + "\n", "21 power-off"},
			"us": {"1 boot", "20 start b desktop of s"},
		}, want: []string{"s 20-21"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			history, err := observer.Read(logs(t, c.logs)...)
			if err != nil {
				t.Fatal(err)
			}
			may := func(session string) bool { return session == "s" }
			for what, overlaps := range map[string][]observer.Overlap{"without excuse": history.Overlaps(nil), "of another": history.Overlaps(func(string) bool { return false })} {
				if d := cmp.Diff(c.want, spans(overlaps)); d != "" {
					t.Errorf("%s (-want +got):\n%s", what, d)
				}
			}
			if d := cmp.Diff(c.strict, spans(history.Overlaps(may))); d != "" {
				t.Errorf("of one that may (-want +got):\n%s", d)
			}
		})
	}
}

func TestUnreadableLogsAreReported(t *testing.T) {
	cases := map[string][]string{
		"what is JSON and no line":      {"1 boot", "{}\n"},
		"what is neither":               {"1 boot", `{"what":}` + "\n"},
		"an end of what does not run":   {"1 boot", "10 exit a desktop of s"},
		"a second start":                {"1 boot", "10 start a desktop of s", "11 start a desktop of s"},
		"a start in a later torn log":   {"1 boot", `{"boottime":5,"what":"st` + "\n", "10 start a desktop of s"},
		"a line of an unknown kind":     {"1 boot", "10 explode a desktop of s"},
		"a start without its container": {"1 boot", `{"boottime":5,"member":"eu","what":"start","podUID":"a"}` + "\n"},
	}
	for name, lines := range cases {
		if _, err := observer.Read(logs(t, map[string][]string{"eu": lines})...); err == nil {
			t.Errorf("%s was read and nothing reported", name)
		}
	}
}

func TestTornLinesAreShown(t *testing.T) {
	history, err := observer.Read(logs(t, map[string][]string{"eu": {"1 boot", `{"boottime":5,"what":"st`}})...)
	if err != nil || len(history.Torn) != 1 || !strings.Contains(history.Torn[0], `"what":"st`) {
		t.Errorf("%q, %v", history.Torn, err)
	}
}

func TestWhatRanAtAMoment(t *testing.T) {
	history, err := observer.Read(logs(t, map[string][]string{
		"eu": {"1 boot", "10 start a desktop of s", "20 stop a desktop of s", "30 exit a desktop of s"},
		"us": {"1 boot", "40 start b desktop of s"},
	})...)
	if err != nil {
		t.Fatal(err)
	}
	for moment, want := range map[observer.Moment]string{9: "", 10: "eu", 25: "eu", 29: "eu", 30: "", 39: "", 40: "us", history.Until: "us"} {
		got := ""
		for _, run := range history.RanAt("s", moment) {
			got += run.Member
		}
		if got != want {
			t.Errorf("at %d it ran in %q, want %q", moment, got, want)
		}
	}
	first := history.Of("s")[0]
	if first.Open || first.StoppedAt != 20 || first.To != 30 || first.CutOff {
		t.Errorf("%+v", first)
	}
}

// A follower that reads at any moment, in the middle of lines and across logs that start
// over, finds the same in the end as a reader of complete logs.
func TestAFollowerFindsTheSameAsAReader(t *testing.T) {
	lines := map[string][]string{
		"eu": {"1 boot", "10 start a desktop of s", "12 start c desktop of r", "20 power-off", "25 boot", "50 start d desktop of s"},
		"us": {"1 boot", "19 start b desktop of s", "30 exit b desktop of s", "31 start e desktop of r"},
	}
	want, err := observer.Read(logs(t, lines)...)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		left := map[string]string{}
		paths := []string{filepath.Join(dir, "eu"), filepath.Join(dir, "us")}
		for _, path := range paths {
			for _, line := range lines[filepath.Base(path)] {
				left[path] += at(filepath.Base(path), line)
			}
		}
		follower := observer.Follow(paths...)
		for left[paths[0]] != "" || left[paths[1]] != "" {
			path := rapid.SampledFrom(paths).Draw(rt, "log")
			n := min(rapid.IntRange(0, 250).Draw(rt, "bytes"), len(left[path]))
			appendTo(rt, path, left[path][:n])
			left[path] = left[path][n:]
			if _, errs := follower.History(); len(errs) > 0 {
				rt.Fatal(errs)
			}
		}
		got, errs := follower.History()
		if d := cmp.Diff(spans(want.Overlaps(nil)), spans(got.Overlaps(nil))); d != "" || len(errs) > 0 {
			rt.Errorf("(-want +got):\n%s%v", d, errs)
		}
	})
}

func TestAFollowerRemembersALogThatStartsOver(t *testing.T) {
	for name, replace := range map[string]func(string) error{
		"emptied":  func(path string) error { return os.Truncate(path, 0) },
		"replaced": os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "eu")
			follower := observer.Follow(path)
			appendTo(t, path, at("eu", "1 boot")+at("eu", "10 start a desktop of s")+`{"boottime":11,"wha`)
			_, _ = follower.History()
			if err := replace(path); err != nil {
				t.Fatal(err)
			}
			_, _ = follower.History()
			appendTo(t, path, at("eu", "20 boot")+at("eu", "30 start b desktop of s"))
			history, errs := follower.History()
			runs := history.Of("s")
			if len(errs) > 0 || len(runs) != 2 || runs[0].To != 20 || !runs[1].Open || len(history.Torn) != 1 {
				t.Errorf("%v, %v, torn %q", runs, errs, history.Torn)
			}
		})
	}
}

func TestAFollowerReportsAnOverlapOnce(t *testing.T) {
	paths := logs(t, map[string][]string{
		"eu": {"1 boot", "10 start a desktop of s"},
		"us": {"1 boot", "30 start b desktop of s"},
	})
	ctx, cancel := context.WithCancel(t.Context())
	reports := make(chan observer.Overlap, 100)
	done := make(chan struct{})
	go func() {
		defer close(done)
		observer.Follow(paths...).Watch(ctx, 1, nil, func(o observer.Overlap) { reports <- o })
	}()
	overlap := <-reports
	if !strings.Contains(overlap.String(), "session s ran twice for") || !overlap.Across() {
		t.Error(overlap)
	}
	for _, path := range paths { // it continues to read, and has nothing new to report
		if strings.HasSuffix(path, "us.jsonl") {
			appendTo(t, path, at("us", "40 exit b desktop of s")+at("us", "50 start c desktop of s"))
		}
	}
	if second := <-reports; second.Second.PodUID != "c" {
		t.Error(second)
	}
	cancel()
	<-done
	if len(reports) > 0 {
		t.Error(<-reports)
	}
}

func appendTo(t interface{ Fatal(...any) }, path, content string) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(content); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}
