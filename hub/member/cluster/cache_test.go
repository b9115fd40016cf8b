package cluster

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
)

func item(name string, epoch int64, state v1alpha1.AssignmentState) *v1alpha1.SessionAssignment {
	a := &v1alpha1.SessionAssignment{}
	a.Namespace, a.Name = "desktops", name
	a.Spec.Session.UID, a.Spec.Epoch = types.UID("uid-"+name), epoch
	a.Status.State = state
	return a
}

func keyOfName(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "desktops", Name: name}
}

// shown returns the items of a cache, as name -> stateepoch.
func (p *Cache) shown() map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[string]string{}
	for key, a := range p.store.items {
		out[key.Name] = describe(a.unpack(key))
	}
	return out
}

func describe(a *v1alpha1.SessionAssignment) string {
	return fmt.Sprintf("%s%d", a.Status.State, a.Spec.Epoch)
}

const active, stopping, stopped, refused = v1alpha1.AssignmentActive, v1alpha1.AssignmentStopping, v1alpha1.AssignmentStopped, v1alpha1.AssignmentRefused

func TestCacheAppliesNoOlderEpoch(t *testing.T) {
	p := newCache(nil, nil)
	p.Apply(reportsOf(item("a", 3, active), item("b", 3, stopped), item("c", 3, refused)))
	p.Apply(reportsOf(item("a", 2, stopping), item("b", 3, stopping), item("c", 3, active)))
	if diff := cmp.Diff(map[string]string{"a": "Active3", "b": "Stopped3", "c": "Active3"}, p.shown()); diff != "" {
		t.Errorf("cache (-want +got):\n%s", diff)
	}
	p.Apply(reportsOf(item("b", 4, active)))
	if got := p.shown()["b"]; got != "Active4" {
		t.Errorf("a newer epoch after the end of an older: got %s", got)
	}
}

func TestReplaceReportsTheDifferenceOnly(t *testing.T) {
	p := newCache(nil, nil)
	p.Apply(reportsOf(item("same", 1, active), item("changed", 1, active), item("lost", 1, active),
		item("ended", 1, stopped), item("unwanted", 1, refused), item("newer", 5, active)))
	seen := follow(t, p)
	seen.take()
	p.Replace(convert.AllBuckets(), reportsOf(
		item("same", 1, active), item("changed", 2, active), item("fresh", 1, active), item("newer", 4, active)), false)
	want := map[string]string{
		"same": "Active1", "changed": "Active2", "fresh": "Active1", "newer": "Active5",
		// Ends that the hub has not recorded yet come from results, not from inventories.
		"ended": "Stopped1", "unwanted": "Refused1",
	}
	if diff := cmp.Diff(want, p.shown()); diff != "" {
		t.Errorf("cache (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"changed": "update Active2", "fresh": "add Active1", "lost": "delete Active1"}, seen.take()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// followed has the changes of a cache, as a handler gets them: the last of each item.
type followed struct {
	mu      sync.Mutex
	changes map[string]string
	items   map[string]string
	handler toolscache.ResourceEventHandlerRegistration
}

func follow(t interface{ Fatal(...any) }, p *Cache) *followed {
	f := &followed{changes: map[string]string{}, items: map[string]string{}}
	note := func(kind string, o any) {
		a := o.(*v1alpha1.SessionAssignment)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.changes[a.Name], f.items[a.Name] = kind+" "+describe(a), describe(a)
		if kind == "delete" {
			delete(f.items, a.Name)
		}
	}
	var err error
	f.handler, err = reader{p}.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { note("add", o) },
		UpdateFunc: func(_, o any) { note("update", o) },
		DeleteFunc: func(o any) { note("delete", o) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// take returns the changes since its last call.
func (f *followed) take() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := f.changes
	f.changes = map[string]string{}
	return out
}

func TestCacheForgetsWhatIsDropped(t *testing.T) {
	p := newCache(nil, nil)
	seen := follow(t, p)
	for i := range 1000 {
		p.Apply(reportsOf(item(strconv.Itoa(i), 1, active)))
	}
	p.Replace(convert.AllBuckets(), nil, false)
	if len(p.store.items)+len(p.store.changes)+len(seen.items) != 0 {
		t.Errorf("kept %d items and %d changes; a handler has %d items", len(p.store.items), len(p.store.changes), len(seen.items))
	}
}

func TestAHandlerThatIsRemovedGetsNothingMore(t *testing.T) {
	g := NewWithT(t)
	p := newCache(nil, nil)
	p.Apply(reportsOf(item("a", 1, active)))
	seen, other := follow(t, p), follow(t, p)
	g.Expect(seen.take()).To(Equal(map[string]string{"a": "add Active1"}), "what there was before")
	g.Expect(reader{p}.RemoveEventHandler(seen.handler)).To(Succeed())
	p.Apply(reportsOf(item("b", 1, active)))
	g.Expect(seen.take()).To(BeEmpty())
	g.Expect(other.take()).To(Equal(map[string]string{"a": "add Active1", "b": "add Active1"}))
	g.Expect(p.handlers).To(HaveLen(1))
}

// A handler may read the cache, and change it.
func TestAHandlerIsCalledWithoutTheLock(t *testing.T) {
	g := NewWithT(t)
	p := newCache(nil, nil)
	_, err := reader{p}.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(o any) {
		a := o.(*v1alpha1.SessionAssignment)
		if p.Get(keyOf(a)) == nil {
			t.Errorf("%s is not there yet", a.Name)
		}
		if a.Name == "a" {
			p.Apply(reportsOf(item("b", 1, active)))
		}
	}})
	g.Expect(err).NotTo(HaveOccurred())
	p.Apply(reportsOf(item("a", 1, active)))
	g.Expect(p.shown()).To(Equal(map[string]string{"a": "Active1", "b": "Active1"}))
}

// Handlers that are added during writes miss nothing: each is called for every item that it does
// not get as a change.
func TestNothingSlipsByAHandlerThatIsAdded(t *testing.T) {
	p := newCache(nil, nil)
	var writers sync.WaitGroup
	for n := range 4 {
		writers.Go(func() {
			for i := range 500 {
				p.Apply(reportsOf(item(fmt.Sprintf("%d-%d", n, i), 1, active)))
			}
		})
	}
	var all []*followed
	for range 20 {
		all = append(all, follow(t, p))
		runtime.Gosched() // writes occur in between
	}
	writers.Wait()
	for i, f := range all {
		if len(f.items) != 2000 {
			t.Errorf("handler %d knows %d of 2000 items", i, len(f.items))
		}
	}
}

// Any interleaving of agents' reports leaves a handler with the content of the cache.
func TestHandlersFollowTheCache(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := NewWithT(t)
		p := newCache(nil, nil)
		seen := follow(t, p)
		names := rapid.SampledFrom([]string{"a", "b", "c", "d"})
		items := rapid.Custom(func(t *rapid.T) *v1alpha1.SessionAssignment {
			return item(names.Draw(t, "name"), rapid.Int64Range(1, 4).Draw(t, "epoch"),
				rapid.SampledFrom([]v1alpha1.AssignmentState{active, stopping, stopped, refused}).Draw(t, "state"))
		})
		t.Repeat(map[string]func(*rapid.T){
			"apply": func(t *rapid.T) { p.Apply(reportsOf(rapid.SliceOf(items).Draw(t, "items")...)) },
			"replace": func(t *rapid.T) {
				some := rapid.SliceOfDistinct(items, func(a *v1alpha1.SessionAssignment) string { return a.Name }).Draw(t, "items")
				p.Replace(convert.AllBuckets(), reportsOf(some...), false)
			},
			"set": func(t *rapid.T) {
				next := items.Draw(t, "item")
				p.updateLocked(keyOf(next), func(*v1alpha1.SessionAssignment) *v1alpha1.SessionAssignment { return next })
			},
			"drop": func(t *rapid.T) {
				p.updateLocked(keyOfName(names.Draw(t, "name")), func(*v1alpha1.SessionAssignment) *v1alpha1.SessionAssignment { return nil })
			},
			"": func(*rapid.T) { g.Expect(seen.items).To(Equal(p.shown())) },
		})
	})
}

// Controllers use the cache as one of controller-runtime.
func TestMemberClusterShowsTheCache(t *testing.T) {
	g := NewWithT(t)
	scheme := kruntime.NewScheme()
	g.Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	p := newCache(nil, nil)
	p.Apply(reportsOf(item("first", 1, active)))
	cl := newMemberCluster(scheme, p, nil)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	informer, err := cl.GetCache().GetInformer(ctx, &v1alpha1.SessionAssignment{})
	g.Expect(err).NotTo(HaveOccurred())
	events := make(chan string, 100)
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { events <- "add " + describe(o.(*v1alpha1.SessionAssignment)) },
		UpdateFunc: func(_, o any) { events <- "update " + describe(o.(*v1alpha1.SessionAssignment)) },
		DeleteFunc: func(o any) { events <- "delete " + describe(o.(*v1alpha1.SessionAssignment)) },
	})
	g.Expect(err).NotTo(HaveOccurred())
	go func() { _ = cl.GetCache().Start(ctx) }()
	g.Expect(cl.GetCache().WaitForCacheSync(ctx)).To(BeTrue())
	g.Eventually(events).Should(Receive(Equal("add Active1")))
	p.Apply(reportsOf(item("second", 2, active)))
	g.Eventually(events).Should(Receive(Equal("add Active2")))
	p.Apply(reportsOf(item("second", 2, stopping)))
	g.Eventually(events).Should(Receive(Equal("update Stopping2")))
	p.Replace(convert.AllBuckets(), reportsOf(item("first", 1, active)), false)
	g.Eventually(events).Should(Receive(Equal("delete Stopping2")))
	got := &v1alpha1.SessionAssignment{}
	g.Expect(cl.GetClient().Get(ctx, keyOfName("first"), got)).To(Succeed())
	g.Expect(describe(got)).To(Equal("Active1"))
	g.Expect(cl.GetClient().Get(ctx, keyOfName("second"), got)).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
	list := &v1alpha1.SessionAssignmentList{}
	g.Expect(cl.GetClient().List(ctx, list, client.InNamespace("desktops"))).To(Succeed())
	g.Expect(list.Items).To(HaveLen(1))
	g.Expect(cl.GetClient().List(ctx, list, client.InNamespace("elsewhere"))).To(Succeed())
	g.Expect(list.Items).To(BeEmpty())
	g.Expect(cl.GetClient().List(ctx, list, client.MatchingLabels{"a": "b"})).NotTo(Succeed(), "it would list all")
	g.Consistently(events, 50*time.Millisecond).ShouldNot(Receive())
}

// updateLocked changes one item of the cache under its lock.
func (p *Cache) updateLocked(key types.NamespacedName, f func(*v1alpha1.SessionAssignment) *v1alpha1.SessionAssignment) {
	p.mu.Lock()
	defer p.unlock()
	old := p.store.get(key)
	p.replace(key, old, f(old))
}
