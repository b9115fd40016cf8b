package keys

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var monday = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)

// numbered returns a source of keys with the IDs 1, 2, …
func numbered() func(time.Time) Key {
	n := 0
	return func(notBefore time.Time) Key {
		n++
		return Key{ID: fmt.Sprint(n), Key: make([]byte, size), NotBefore: notBefore}
	}
}

func ids(keys sequence) []string {
	var out []string
	for _, k := range keys {
		out = append(out, k.ID)
	}
	return out
}

func TestRotation(t *testing.T) {
	made := numbered()
	var keys sequence
	for _, step := range []struct {
		after   time.Duration
		keys    []string
		current string
	}{
		{0, []string{"1"}, "1"},
		{6 * 24 * time.Hour, []string{"1"}, "1"},
		// The next key is stored an hour before its use.
		{rotateEvery - lead, []string{"1", "2"}, "1"},
		{rotateEvery - time.Second, []string{"1", "2"}, "1"},
		{rotateEvery, []string{"1", "2"}, "2"},
		// The old one is accepted for a day more.
		{rotateEvery + keep - time.Second, []string{"1", "2"}, "2"},
		{rotateEvery + keep, []string{"2"}, "2"},
		// No replica ran for a month.
		{40 * 24 * time.Hour, []string{"2", "3"}, "2"},
		{40*24*time.Hour + lead, []string{"2", "3"}, "3"},
	} {
		now := monday.Add(step.after)
		keys, _ = keys.rotated(now, made)
		if current := keys.current(now).ID; !slices.Equal(ids(keys), step.keys) || current != step.current {
			t.Errorf("after %s there are %v and %s is used, want %v and %s", step.after, ids(keys), current, step.keys, step.current)
		}
	}
}

// Whenever replicas run, what one encrypts with its ring another can decrypt with a ring that is up to an
// hour older, and for a day after.
func TestEveryReplicaHasTheKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		made, now := numbered(), monday
		keys, _ := sequence{}.rotated(now, made)
		older, olderAt := keys, now
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(1, int64(3*24*time.Hour)).Draw(t, "step")))
			if now.Sub(olderAt) >= lead {
				older, olderAt = keys, now
			}
			before := keys.current(now)
			keys, _ = keys.rotated(now, made)
			if !slices.Contains(ids(keys), before.ID) {
				t.Fatalf("key %s was in use at %s and is dropped", before.ID, now)
			}
			current := keys.current(now)
			if !slices.Contains(ids(older), current.ID) {
				t.Fatalf("key %s is in use at %s; a replica that read %v at %s lacks it", current.ID, now, ids(older), olderAt)
			}
			if due := keys.due(now); due <= 0 {
				t.Fatalf("the next rotation is due in %s", due)
			}
		}
	})
}

func TestAnInvalidRingIsRefused(t *testing.T) {
	valid, _ := Ring{}.rotated(monday, numbered())
	stored, _ := json.Marshal(valid)
	if _, err := parse(stored); err != nil {
		t.Fatal(err)
	}
	for name, stored := range map[string]string{
		"empty":     "",
		"no keys":   `{"login":[]}`,
		"short key": `{"login":[{"id":"a","key":"AAAA","notBefore":"2026-11-30T09:00:00Z"}]}`,
		"cut":       string(stored[:len(stored)/2]),
	} {
		if _, err := parse([]byte(stored)); err == nil {
			t.Errorf("%s: the ring is accepted", name)
		}
	}
}
