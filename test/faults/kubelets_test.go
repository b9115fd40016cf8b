package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// logs writes what the kubelets of two members say: one desktop of a session runs in
// each, from and to these seconds; to 0: it still does.
func logs(t *testing.T, lives map[string][2]int) []string {
	t.Helper()
	began := time.Now().Add(-time.Minute)
	var paths []string
	for _, member := range []string{"a", "b"} {
		line := func(second int, what string) string {
			at := began.Add(time.Duration(second) * time.Second)
			return fmt.Sprintf(`{"boottime":%d,"wall":%q,"member":%q,"what":%q,"podUID":"p-%s","namespace":"ns","pod":"p","container":"desktop","session":"s","epoch":"1"}`+"\n",
				1+second*1e9, at.Format(time.RFC3339Nano), member, what, member)
		}
		content := line(lives[member][0], "start")
		if to := lives[member][1]; to > 0 {
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

func TestWhatTheKubeletsSayIsPromise1(t *testing.T) {
	for name, tc := range map[string]struct {
		lives map[string][2]int
		// mode of the session, and for how long member a was away when it was placed
		// again.
		mode string
		away time.Duration
		want string // of a violation; "": none
	}{
		"one after the other":       {map[string][2]int{"a": {1, 5}, "b": {6, 0}}, "Fence", 5 * time.Minute, ""},
		"Fence, for a moment":       {map[string][2]int{"a": {1, 7}, "b": {6, 9}}, "Fence", 5 * time.Minute, "ran twice for 1s"},
		"Fence, still":              {map[string][2]int{"a": {1, 0}, "b": {6, 0}}, "Fence", 5 * time.Minute, "ran twice"},
		"Restart in a partition":    {map[string][2]int{"a": {1, 0}, "b": {6, 0}}, "Restart", 2 * time.Minute, ""},
		"Restart without partition": {map[string][2]int{"a": {1, 7}, "b": {6, 9}}, "Restart", 0, "ran twice for 1s"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newTold()
			supersedes(tc.mode, tc.away)(h)
			h.broken = nil // what the hub did wrong is another test's
			k := observe(logs(t, tc.lives), &watcher{checker: h.checker})
			desktops, _, err := k.tally(time.Time{})
			k.close()
			if err != nil || desktops != 2 {
				t.Errorf("%d desktops, %v; want 2", desktops, err)
			}
			switch {
			case tc.want == "" && len(h.broken) > 0:
				t.Errorf("it says %v", h.broken)
			case tc.want != "" && (len(h.broken) != 1 || h.broken[0].Promise != 1 || !strings.Contains(h.broken[0].What, tc.want)):
				t.Errorf("want a violation that says %q, got %v", tc.want, h.broken)
			}
		})
	}
}
