package convert

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

func TestALedgersDigestIsThatOfItsItemsWhateverTheirHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var ledger Ledger[string]
		want := map[string]uint64{}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			uid := rapid.StringMatching("s[0-9]").Draw(t, "uid")
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				ledger.Delete(uid)
				delete(want, uid)
			case 1:
				var some BucketSet
				some.Add(BucketOf(uid))
				ledger.DeleteBuckets(some)
				delete(want, uid)
				for other := range want {
					if BucketOf(other) == BucketOf(uid) {
						delete(want, other)
					}
				}
			default:
				hash := rapid.Uint64().Draw(t, "hash")
				ledger.Set(uid, BucketOf(uid), hash)
				want[uid] = hash
			}
		}
		var fresh Digest
		for uid, hash := range want {
			fresh.Add(BucketOf(uid), hash)
		}
		if *ledger.Digest() != fresh || ledger.Len() != len(want) {
			t.Fatalf("%d items, want %d; digest differs in %d buckets", ledger.Len(), len(want), fresh.Differing(ledger.Digest()).Len())
		}
	})
}

func TestDigestsAndBucketsSurviveTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var digest Digest
		for _, uid := range rapid.SliceOf(rapid.String()).Draw(t, "uids") {
			digest.Add(BucketOf(uid), ItemHash(uid, 1, "h", 7))
		}
		back, err := DigestFromWire(DigestToWire(&digest))
		if err != nil || *back != digest {
			t.Fatalf("came back with %v", err)
		}
		var set BucketSet
		for _, b := range rapid.SliceOf(rapid.IntRange(0, Buckets-1)).Draw(t, "buckets") {
			set.Add(b)
		}
		again, err := BucketsFromWire(BucketsToWire(set))
		if err != nil || again != set {
			t.Fatalf("came back with %v", err)
		}
	})
}

func TestMalformedDigestsAreRefused(t *testing.T) {
	for name, w := range map[string]*fleetv1.InventoryDigest{
		"no buckets for what it holds": {Assignments: 1},
		"another number of buckets":    {Assignments: 1, Buckets: make([]uint64, 255)},
	} {
		if _, err := DigestFromWire(w); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := BucketsFromWire(&fleetv1.InventoryRequest{Buckets: make([]byte, 33)}); err == nil {
		t.Error("33 bytes of buckets: accepted")
	}
	if s, err := BucketsFromWire(&fleetv1.InventoryRequest{Buckets: []byte{0, 2}}); err != nil || !s.Has(9) || s.Len() != 1 {
		t.Errorf("a short set: %v, %d buckets", err, s.Len())
	}
}

// A hash must depend only on its input, or the upgrade of a hub would cause a full resync of
// every agent.
func TestHashesDistinguishTheirInputs(t *testing.T) {
	seen := map[uint64]string{}
	note := func(what string, hash uint64) {
		if before, ok := seen[hash]; ok {
			t.Errorf("%s has the hash of %s", what, before)
		}
		seen[hash] = what
	}
	for _, c := range []struct {
		uid    string
		epoch  int64
		spec   string
		report uint64
	}{{"a", 1, "h", 1}, {"b", 1, "h", 1}, {"a", 2, "h", 1}, {"a", 1, "i", 1}, {"a", 1, "h", 2}, {"", 1, "ah", 1}, {"ah", 1, "", 1}} {
		note(fmt.Sprint(c), ItemHash(c.uid, c.epoch, c.spec, c.report))
	}
	report := func(change func(*fleetv1.AssignmentReport)) uint64 {
		r := &fleetv1.AssignmentReport{SessionUid: "a", Epoch: 1, Status: &fleetv1.AssignmentStatus{State: "Active"}}
		change(r)
		return ReportHash(r)
	}
	plain := report(func(*fleetv1.AssignmentReport) {})
	note("a report", plain)
	note("its node", report(func(r *fleetv1.AssignmentReport) { r.Status.NodeName = "n" }))
	note("its condition", report(func(r *fleetv1.AssignmentReport) {
		r.Status.Conditions = append(r.Status.Conditions, &fleetv1.Condition{Type: "Ready"})
	}))
	if got := report(func(r *fleetv1.AssignmentReport) { r.ReportHash = 99 }); got != plain {
		t.Error("the hash depends on itself")
	}
	if BucketOf("a") != 0xca || ItemHash("a", 1, "h", 1) != 0x02fe298b1026dbbc {
		t.Errorf("bucket %#x, item %#x: other versions compute other hashes", BucketOf("a"), ItemHash("a", 1, "h", 1))
	}
}
