package capacity

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// cacheHolding is a cache that has one assignment, or none.
type cacheHolding struct {
	uid types.UID
	err error
}

func (c cacheHolding) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	if c.err != nil {
		return c.err
	}
	if c.uid == "" {
		return errors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	obj.SetUID(c.uid)
	return nil
}

func (cacheHolding) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return nil, nil
}

// watching returns a synced watcher of a node with capacity for four, without
// informers.
func watching(c Assignments) *Watcher {
	w := NewWatcher(Options{Assignments: c})
	w.model = scene(nodes(machine("a", 4000, 32)))
	w.synced = true
	return w
}

func stored(uid types.UID, generation int64, mode v1alpha1.OperatingMode) *v1alpha1.SessionAssignment {
	a := &v1alpha1.SessionAssignment{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: uid, Generation: generation}}
	a.Spec.Session.UID, a.Spec.RunState = "s", mode
	a.Spec.Desktop.Resources = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	return a
}

func (w *Watcher) shown(t *testing.T) (sequence uint64, slots int32) {
	t.Helper()
	w.publish()
	r := w.Report()
	return r.GetSequence(), r.GetTemplates()[0].GetSlots()
}

func TestStoredIsCountedBeforeTheCacheHasIt(t *testing.T) {
	w := watching(cacheHolding{})
	if sequence, slots := w.shown(t); sequence != 1 || slots != 4 {
		t.Fatalf("report %d with %d slots", sequence, slots)
	}
	if next := w.Stored(stored("u", 2, v1alpha1.ModeRunning)); next != 2 {
		t.Errorf("the next report is %d, want 2", next)
	}
	if sequence, slots := w.shown(t); sequence != 2 || slots != 3 {
		t.Errorf("report %d with %d slots", sequence, slots)
	}
	h := w.assignmentHandler()
	h.OnAdd(stored("u", 1, v1alpha1.ModeSuspended), true)
	if _, slots := w.shown(t); slots != 3 {
		t.Errorf("%d slots after the cache showed what it was before", slots)
	}
	h.OnUpdate(nil, stored("u", 3, v1alpha1.ModeSuspended))
	if _, slots := w.shown(t); slots != 4 {
		t.Errorf("%d slots after the cache showed it suspended", slots)
	}
}

func TestDeletionOfAnAssignmentDoesNotAffectItsSuccessor(t *testing.T) {
	w := watching(cacheHolding{})
	h := w.assignmentHandler()
	h.OnAdd(stored("former", 1, v1alpha1.ModeRunning), true)
	w.Stored(stored("next", 1, v1alpha1.ModeRunning))
	h.OnDelete(stored("former", 1, v1alpha1.ModeRunning))
	if _, slots := w.shown(t); slots != 3 {
		t.Errorf("%d slots", slots)
	}
}

func TestWhatTheCacheNeverShowsIsForgotten(t *testing.T) {
	for _, tc := range []struct {
		name  string
		cache cacheHolding
		slots int32
	}{
		{"gone", cacheHolding{}, 4},
		{"another of that name", cacheHolding{uid: "other"}, 4},
		{"there", cacheHolding{uid: "u"}, 3},
		{"it is unknown", cacheHolding{err: context.Canceled}, 3},
	} {
		w := watching(tc.cache)
		w.Stored(stored("u", 1, v1alpha1.ModeRunning))
		w.recheck(t.Context())
		if _, slots := w.shown(t); slots != 3 {
			t.Errorf("%s: dropped at once", tc.name)
		}
		w.recheck(t.Context())
		if _, slots := w.shown(t); slots != tc.slots {
			t.Errorf("%s: %d slots, want %d", tc.name, slots, tc.slots)
		}
	}
}

func TestSequence(t *testing.T) {
	w := watching(cacheHolding{})
	w.synced = false
	if next := w.NextSequence(); next != 1 || w.publish() || w.Report() != nil {
		t.Error("nothing is reported before all was seen, and the first report is number 1")
	}
	w.synced = true
	if !w.publish() || w.publish() {
		t.Error("an unchanged report is not made")
	}
	for range 3 {
		if w.NextSequence() != 2 {
			t.Error("two calls between two reports returned different numbers")
		}
	}
	if !w.publish() || w.Report().GetSequence() != 2 || w.publish() {
		t.Error("a required report is built once")
	}
}

func TestReportCountsWhatIsStored(t *testing.T) {
	w := watching(cacheHolding{})
	w.publish()
	w.Stored(stored("u", 1, v1alpha1.ModeRunning))
	if r := w.Report(); r.GetSequence() != 2 || r.GetTemplates()[0].GetSlots() != 3 {
		t.Errorf("before the debounce: %v", r)
	}
	if !w.publish() || w.publish() {
		t.Error("OnChange is owed for it, once")
	}
}
