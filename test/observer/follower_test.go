package observer

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A start may be recorded before the end that preceded it: an overlap with an open run is
// reported only after it has lasted, one between ended runs at once.
func TestAnOpenOverlapIsNotReportedTooSoon(t *testing.T) {
	const begin = `{"boottime":1,"member":"eu","what":"boot"}
{"boottime":10,"member":"eu","what":"start","podUID":"a","container":"desktop","session":"s"}
{"boottime":30,"member":"eu","what":"start","podUID":"b","container":"desktop","session":"s"}
`
	for end, want := range map[string]int{
		"": 0,
		`{"boottime":29,"member":"eu","what":"exit","podUID":"a","container":"desktop"}` + "\n": 0,
		`{"boottime":31,"member":"eu","what":"exit","podUID":"a","container":"desktop"}` + "\n" +
			`{"boottime":32,"member":"eu","what":"exit","podUID":"b","container":"desktop"}` + "\n": 1,
	} {
		path := filepath.Join(t.TempDir(), "eu")
		if err := os.WriteFile(path, []byte(begin+end), 0o600); err != nil {
			t.Fatal(err)
		}
		follower := Follow(path)
		follower.confirmed = time.Duration(math.MaxInt64)
		once, cancel := context.WithCancel(t.Context())
		cancel()
		reports := 0
		follower.Watch(once, time.Hour, nil, func(Overlap) { reports++ })
		if reports != want {
			t.Errorf("reported %d overlaps, want %d, after\n%s", reports, want, begin+end)
		}
	}
}
