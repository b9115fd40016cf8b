package cluster

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
)

func reportOf(a *v1alpha1.SessionAssignment) protocol.Report {
	return protocol.Report{SessionAssignment: a.DeepCopy(), Hash: convert.ItemHash(string(a.Spec.Session.UID), a.Spec.Epoch, "", uint64(len(a.Status.State)))}
}

func reportsOf(items ...*v1alpha1.SessionAssignment) []protocol.Report {
	reports := make([]protocol.Report, 0, len(items))
	for _, a := range items {
		reports = append(reports, reportOf(a))
	}
	return reports
}

// digestOf returns an agent's digest of its inventory.
func digestOf(held map[string]*v1alpha1.SessionAssignment) *convert.Digest {
	var d convert.Digest
	for _, a := range held {
		d.Add(convert.BucketOf(string(a.Spec.Session.UID)), reportOf(a).Hash)
	}
	return &d
}

// A stream that begins with the digest results in the same cache as one that begins with the
// whole inventory, whatever reports and results were received or lost before.
func TestAPartOfTheInventoryIsAsGoodAsAllOfIt(t *testing.T) {
	names := []string{"a", "b", "c", "d"}
	rapid.Check(t, func(t *rapid.T) {
		p := newCache(nil, nil)
		held := map[string]*v1alpha1.SessionAssignment{}
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			name := rapid.SampledFrom(names).Draw(t, "name")
			epoch := rapid.Int64Range(1, 3).Draw(t, "epoch")
			state := rapid.SampledFrom([]v1alpha1.AssignmentState{active, stopping}).Draw(t, "state")
			result := &protocol.Result{SessionUID: types.UID("uid-" + name), Namespace: "desktops", Name: name, Epoch: epoch}
			key := keyOfName(name)
			switch rapid.SampledFrom([]string{"change", "report", "end", "report the end", "stored", "stopped", "refused", "recorded"}).Draw(t, "what") {
			case "change":
				held[name] = item(name, epoch, state)
			case "report":
				if held[name] != nil {
					p.Apply([]protocol.Report{reportOf(held[name])})
				}
			case "end":
				delete(held, name)
			case "report the end":
				if held[name] == nil {
					p.Apply([]protocol.Report{{SessionAssignment: item(name, 1, ""), Gone: true}})
				}
			case "stored":
				p.updateLocked(key, func(old *v1alpha1.SessionAssignment) *v1alpha1.SessionAssignment { return afterStored(old, result) })
			case "stopped":
				p.updateLocked(key, func(old *v1alpha1.SessionAssignment) *v1alpha1.SessionAssignment { return afterStopped(old, result) })
			case "refused":
				p.updateLocked(key, func(old *v1alpha1.SessionAssignment) *v1alpha1.SessionAssignment { return afterRefused(old, result) })
			case "recorded":
				p.updateLocked(key, func(old *v1alpha1.SessionAssignment) *v1alpha1.SessionAssignment {
					if old != nil && awaitsRecording(old) {
						return nil
					}
					return old
				})
			}
			checkSums(t, p)
		}
		whole := newCache(nil, nil)
		for key, a := range p.store.items {
			same := *a
			whole.store.items[key] = &same
		}
		buckets := p.Differing(digestOf(held))
		var all, part []protocol.Report
		for _, a := range held {
			all = append(all, reportOf(a))
			if buckets.Has(convert.BucketOf(string(a.Spec.Session.UID))) {
				part = append(part, reportOf(a))
			}
		}
		whole.Replace(convert.AllBuckets(), all, false)
		p.Replace(buckets, part, false)
		if diff := cmp.Diff(whole.shown(), p.shown()); diff != "" {
			t.Fatalf("%d buckets were requested (-whole +part):\n%s", buckets.Len(), diff)
		}
		if sum := p.Sums().Reported; sum != digestOf(held).Sum() {
			t.Fatal("the digests differ after what differed was reported")
		}
		checkSums(t, p)
	})
}

// checkSums checks the incremental sums against newly computed ones, and that marks are not
// kept forever.
func checkSums(t *rapid.T, p *Cache) {
	var assigned uint64
	for _, a := range p.Items() {
		assigned += assignedHash(a)
	}
	if got := p.Sums().Assigned; got != assigned {
		t.Fatalf("the digest of what is assigned is %x, want %x", got, assigned)
	}
	size := 0
	for _, a := range p.Items() {
		size += sizeOf(a)
	}
	if size != p.quota.textBytes {
		t.Fatalf("%d bytes are kept, %d are counted", size, p.quota.textBytes)
	}
	for key := range p.reported.altered {
		if _, reported := p.reported.hashes.Has(key); !reported {
			t.Fatalf("%s is marked as altered, and was never reported", key)
		}
	}
}

func TestUnchangedAssignmentsAreNotRequestedAgain(t *testing.T) {
	p, held := newCache(nil, nil), map[string]*v1alpha1.SessionAssignment{}
	for i := range 100 {
		name := fmt.Sprintf("s%d", i)
		held[name] = item(name, 1, active)
	}
	if n := p.Differing(digestOf(held)).Len(); n < 70 {
		t.Errorf("a new hub requests %d buckets", n)
	}
	var all []protocol.Report
	for _, a := range held {
		all = append(all, reportOf(a))
	}
	p.Replace(convert.AllBuckets(), all, false)
	if n := p.Differing(digestOf(held)).Len(); n != 0 {
		t.Errorf("%d buckets are requested although nothing has changed", n)
	}
	// A result counts only until the agent reports.
	p.updateLocked(keyOfName("s7"), func(old *v1alpha1.SessionAssignment) *v1alpha1.SessionAssignment {
		return afterStored(old, &protocol.Result{SessionUID: "uid-s7", Namespace: "desktops", Name: "s7", Epoch: 1, SpecHash: "other"})
	})
	differ := p.Differing(digestOf(held))
	if differ.Len() != 1 || !differ.Has(convert.BucketOf("uid-s7")) {
		t.Errorf("%d buckets are requested after a result, want that of s7", differ.Len())
	}
	p.Replace(convert.AllBuckets(), nil, false)
	if p.Sums() != (protocol.Sums{}) {
		t.Errorf("sums of nothing: %+v", p.Sums())
	}
}

func TestStaleReportsAreCounted(t *testing.T) {
	p := newCache(nil, nil)
	p.Apply([]protocol.Report{reportOf(item("a", 3, active))})
	if stale := p.Apply([]protocol.Report{reportOf(item("a", 2, active)), reportOf(item("b", 1, active))}); stale != 1 {
		t.Errorf("%d stale, want 1", stale)
	}
	if diff := cmp.Diff(map[string]string{"a": "Active3", "b": "Active1"}, p.shown()); diff != "" {
		t.Errorf("cache (-want +got):\n%s", diff)
	}
	// What was reported and is not in the cache is requested the next time.
	held := map[string]*v1alpha1.SessionAssignment{"a": item("a", 2, active), "b": item("b", 1, active)}
	if differ := p.Differing(digestOf(held)); differ.Len() != 1 || !differ.Has(convert.BucketOf("uid-a")) {
		t.Errorf("%d buckets are requested, want that of a", differ.Len())
	}
}
