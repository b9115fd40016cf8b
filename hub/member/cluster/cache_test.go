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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"

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
		out[key.Name] = describe(a)
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
	w := watchOf(t, p)
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
	if diff := cmp.Diff(map[string]string{"changed": "MODIFIED Active2", "fresh": "MODIFIED Active1", "lost": "DELETED Active1"}, w.drain()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestWatchKeepsTheNewestOfEach(t *testing.T) {
	p := newCache(nil, nil)
	w := watchOf(t, p)
	for epoch := range int64(1000) {
		p.Apply(reportsOf(item("busy", epoch+1, active), item("other", 1, active)))
	}
	p.updateLocked(keyOfName("other"), func(*v1alpha1.SessionAssignment) *v1alpha1.SessionAssignment { return nil })
	w.mu.Lock()
	pending := len(w.pending)
	w.mu.Unlock()
	if pending > 2 {
		t.Errorf("%d events are pending for 2 items", pending)
	}
	if got := w.drain()["busy"]; got != "MODIFIED Active1000" {
		t.Errorf("the last of the busy item is %q", got)
	}
}

func TestCacheForgetsWhatIsDropped(t *testing.T) {
	p := newCache(nil, nil)
	w := watchOf(t, p)
	for i := range 1000 {
		p.Apply(reportsOf(item(strconv.Itoa(i), 1, active)))
	}
	p.Replace(convert.AllBuckets(), nil, false)
	w.drain()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(p.store.items)+len(w.pending)+len(w.order) != 0 || w.order != nil {
		t.Errorf("kept %d items, %d events, %d keys", len(p.store.items), len(w.pending), cap(w.order))
	}
	w.Stop()
	if len(p.store.watchers) != 0 {
		t.Errorf("%d watchers are kept", len(p.store.watchers))
	}
}

func TestListWithoutAWatchIsForgotten(t *testing.T) {
	p := newCache(nil, nil)
	for range 3 {
		if _, err := p.List(metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if len(p.store.watchers) != 1 {
		t.Errorf("%d watches are kept of 3 lists, want that of the last", len(p.store.watchers))
	}
}

func TestWatchWithoutListIsRefused(t *testing.T) {
	p := newCache(nil, nil)
	if _, err := p.Watch(metav1.ListOptions{}); err == nil {
		t.Fatal("a watch without a list: what came between would be lost")
	}
	watchOf(t, p)
	if _, err := p.Watch(metav1.ListOptions{}); err == nil {
		t.Fatal("a second watch of one list")
	}
}

// pulled is a watch from which a test takes the events itself.
type pulled struct{ *cacheWatch }

// watchOf lists and watches as a reflector does, but does not start the pump.
func watchOf(t *testing.T, p *Cache) pulled {
	t.Helper()
	if _, err := p.List(metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.store.next
	p.store.next = nil
	return pulled{w}
}

func (w pulled) drain() map[string]string {
	out := map[string]string{}
	for {
		e, ok := w.take()
		if !ok {
			return out
		}
		a := e.Object.(*v1alpha1.SessionAssignment)
		out[a.Name] = fmt.Sprintf("%s %s", e.Type, describe(a))
	}
}

// A reflector that lists and watches repeatedly during writes misses nothing: its copy ends up
// equal to the cache.
func TestNothingSlipsBetweenListAndWatch(t *testing.T) {
	g := NewWithT(t)
	p := newCache(nil, nil)
	var writers sync.WaitGroup
	for n := range 4 {
		writers.Go(func() {
			for i := range 500 {
				name := strconv.Itoa((i*7 + n) % 20)
				p.Apply(reportsOf(item(name, int64(i+1), active)))
				if i%3 == 0 {
					p.updateLocked(keyOfName(name), func(*v1alpha1.SessionAssignment) *v1alpha1.SessionAssignment { return nil })
				}
			}
		})
	}
	for range 20 {
		copied := map[string]string{}
		list, err := p.List(metav1.ListOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		runtime.Gosched() // writes occur in between
		for _, a := range list.(*v1alpha1.SessionAssignmentList).Items {
			copied[a.Name] = describe(&a)
		}
		w, err := p.Watch(metav1.ListOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		follow(w, copied, 20)
		w.Stop()
	}
	writers.Wait()
	copied := map[string]string{}
	list, _ := p.List(metav1.ListOptions{})
	for _, a := range list.(*v1alpha1.SessionAssignmentList).Items {
		copied[a.Name] = describe(&a)
	}
	g.Expect(copied).To(Equal(p.shown()))
	g.Expect(len(p.store.watchers)).To(Equal(1), "that of the last list")
}

func follow(w watch.Interface, copied map[string]string, most int) {
	for range most {
		select {
		case e := <-w.ResultChan():
			a := e.Object.(*v1alpha1.SessionAssignment)
			if e.Type == watch.Deleted {
				delete(copied, a.Name)
			} else {
				copied[a.Name] = describe(a)
			}
		case <-time.After(10 * time.Millisecond):
			return
		}
	}
}

// Any interleaving of agents' reports leaves an informer's store equal to the cache once all
// events are delivered.
func TestInformerFollowsTheCache(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := NewWithT(t)
		p := newCache(nil, nil)
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		informer := toolscache.NewSharedIndexInformer(p, &v1alpha1.SessionAssignment{}, 0, toolscache.Indexers{})
		done := make(chan struct{})
		go func() { defer close(done); informer.Run(ctx.Done()) }()
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
			"breathe": func(*rapid.T) { runtime.Gosched() },
		})
		g.Eventually(func() map[string]string {
			out := map[string]string{}
			for _, o := range informer.GetStore().List() {
				a := o.(*v1alpha1.SessionAssignment)
				out[a.Name] = describe(a)
			}
			return out
		}).WithPolling(time.Millisecond).Should(Equal(p.shown()))
		stop()
		<-done
	})
}

// The provider uses the cache through a cache of controller-runtime.
func TestMemberClusterShowsTheCache(t *testing.T) {
	g := NewWithT(t)
	scheme := kruntime.NewScheme()
	g.Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	p := newCache(nil, nil)
	p.Apply(reportsOf(item("first", 1, active)))
	cl, err := newMemberCluster(scheme, p, nil)
	g.Expect(err).NotTo(HaveOccurred())
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
	g.Consistently(events, 50*time.Millisecond).ShouldNot(Receive())
}

// updateLocked changes one item of the cache under its lock.
func (p *Cache) updateLocked(key types.NamespacedName, f func(*v1alpha1.SessionAssignment) *v1alpha1.SessionAssignment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replace(key, f(p.store.items[key]))
}
