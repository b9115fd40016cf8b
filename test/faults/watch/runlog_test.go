package watch

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vdi-fleet/vdi-fleet/test/faults/checker"
)

// logs writes the logs of the kubelets of two members: one desktop of a session runs in each,
// from and to these seconds; 0 is one that still runs.
func logs(t *testing.T, runs map[string][2]int) []string {
	t.Helper()
	began := time.Now().Add(-time.Minute)
	var paths []string
	for _, member := range []string{"a", "b"} {
		line := func(second int, what string) string {
			at := began.Add(time.Duration(second) * time.Second)
			return fmt.Sprintf(`{"boottime":%d,"wall":%q,"member":%q,"what":%q,"podUID":"p-%s","namespace":"ns","pod":"p","container":"desktop","session":"s","epoch":"1"}`+"\n",
				1+second*1e9, at.Format(time.RFC3339Nano), member, what, member)
		}
		content := line(runs[member][0], "start")
		if to := runs[member][1]; to > 0 {
			content += line(to, "exit")
		}
		path := filepath.Join(t.TempDir(), member+".jsonl")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

// failedOver returns a checker that observed how a session of a mode was placed in member b
// without waiting for its stop in a, after a was away for a time.
func failedOver(mode string, away time.Duration) *checker.Checker {
	now := time.Unix(1e9, 0)
	c := checker.New()
	c.Configure(checker.MinimumOutage{Restart: 90 * time.Second, Fence: 290 * time.Second}, true)
	observe := func(s checker.SessionState) {
		s.UID, s.Name = "s", "ns/s"
		c.ObserveSession(now, s)
	}
	observe(checker.SessionState{Epoch: 1, Cluster: "a", Placed: 1})
	c.ObserveAssignment(now, checker.AssignmentState{Cluster: "a", Session: "s", Name: "ns/s", Epoch: 1, Mode: mode, PodReady: true})
	if away > 0 {
		c.RecordOutage(now, "a")
		c.SetReachable("a", false)
	}
	now = now.Add(away)
	observe(checker.SessionState{Epoch: 2, Cluster: "b", Placed: 2, Releasing: map[string]int64{"a": 1}, Superseded: map[string]int64{"a": 1}})
	c.ObserveAssignment(now, checker.AssignmentState{Cluster: "b", Session: "s", Name: "ns/s", Epoch: 2, Mode: mode})
	return c
}

func TestOverlapInTheLogsIsAViolation(t *testing.T) {
	for name, tc := range map[string]struct {
		runs map[string][2]int
		// mode is the session's mode, and away how long member a was away when the session was
		// rescheduled.
		mode string
		away time.Duration
		want string // in a violation; "" for none
	}{
		"one after the other":       {map[string][2]int{"a": {1, 5}, "b": {6, 0}}, "Fence", 5 * time.Minute, ""},
		"Fence, for a moment":       {map[string][2]int{"a": {1, 7}, "b": {6, 9}}, "Fence", 5 * time.Minute, "ran twice for 1s"},
		"Fence, still":              {map[string][2]int{"a": {1, 0}, "b": {6, 0}}, "Fence", 5 * time.Minute, "ran twice"},
		"Restart in a partition":    {map[string][2]int{"a": {1, 0}, "b": {6, 0}}, "Restart", 2 * time.Minute, ""},
		"Restart without partition": {map[string][2]int{"a": {1, 7}, "b": {6, 9}}, "Restart", 0, "ran twice for 1s"},
	} {
		t.Run(name, func(t *testing.T) {
			c := failedOver(tc.mode, tc.away)
			before := len(c.Violations()) // another test checks what the hub did
			k := FollowLogs(logs(t, tc.runs), &Watcher{checker: c})
			desktops, _, err := k.Counts(time.Time{})
			k.Close()
			if err != nil || desktops != 2 {
				t.Errorf("%d desktops, %v; want 2", desktops, err)
			}
			switch found := c.Violations()[before:]; {
			case tc.want == "" && len(found) > 0:
				t.Errorf("violations: %v, want none", found)
			case tc.want != "" && (len(found) != 1 || found[0].Guarantee != 1 || !strings.Contains(found[0].What, tc.want)):
				t.Errorf("want a violation that contains %q, got %v", tc.want, found)
			}
		})
	}
}
