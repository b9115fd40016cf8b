package placement

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// watch records the changes in every API server, in the order of each, with its own
// clients.
type watch struct {
	ctx context.Context

	mu sync.Mutex
	// sessions as the hub has them now.
	sessions map[types.UID]*v1alpha1.VDISession
	// assignments of each member that are not being stopped, and Pods of sessions
	// until they are gone.
	assignments, pods map[string]map[types.UID]bool

	// The most sessions placed at any time since begin, and the most assignments, or
	// Pods, of each member.
	mostPlaced int
	mostHeld   map[string]int
	// order is the names of the sessions in the order of their placements; a
	// rescheduled one is listed again.
	order []string
	// stuck holds the messages of unschedulable Pods of sessions.
	stuck map[string]string
}

func watchFleet() *watch {
	GinkgoHelper()
	ctx, stop := context.WithCancel(context.Background())
	DeferCleanup(stop)
	w := &watch{ctx: ctx, sessions: map[types.UID]*v1alpha1.VDISession{}, assignments: map[string]map[types.UID]bool{}, pods: map[string]map[types.UID]bool{}}
	w.begin()
	for _, m := range fleet.Members {
		w.assignments[m.Name], w.pods[m.Name] = map[types.UID]bool{}, map[types.UID]bool{}
	}
	w.follow(fleet.Hub.ControlPlane, &v1alpha1.VDISession{}, func(o client.Object, gone bool) { w.session(o.(*v1alpha1.VDISession), gone) })
	for _, m := range fleet.Members {
		w.follow(m.ControlPlane, &v1alpha1.SessionAssignment{}, func(o client.Object, gone bool) { w.assignment(m.Name, o, gone) })
		w.follow(m.ControlPlane, &corev1.Pod{}, func(o client.Object, gone bool) { w.pod(m.Name, o.(*corev1.Pod), gone) }, desktops)
	}
	return w
}

// desktops omits other Pods, which are the majority.
func desktops(o *cache.Options) {
	o.DefaultLabelSelector = labels.SelectorFromSet(labels.Set{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy})
}

// follow watches the objects of a kind for as long as the suite runs.
func (w *watch) follow(cp *harness.ControlPlane, kind client.Object, see func(o client.Object, gone bool), changes ...func(*cache.Options)) {
	GinkgoHelper()
	options := cache.Options{Scheme: clientgoscheme.Scheme}
	for _, change := range changes {
		change(&options)
	}
	c, err := cache.New(cp.Config, options)
	Expect(err).NotTo(HaveOccurred())
	go func() { _ = c.Start(w.ctx) }()
	informer, err := c.GetInformer(w.ctx, kind)
	Expect(err).NotTo(HaveOccurred())
	note := func(o any, gone bool) {
		if last, lost := o.(toolscache.DeletedFinalStateUnknown); lost {
			o = last.Obj
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		see(o.(client.Object), gone)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { note(o, false) },
		UpdateFunc: func(_, o any) { note(o, false) },
		DeleteFunc: func(o any) { note(o, true) },
	})
	Expect(err).NotTo(HaveOccurred())
}

// begin drops the records of earlier specs.
func (w *watch) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mostPlaced, w.mostHeld, w.order, w.stuck = 0, map[string]int{}, nil, map[string]string{}
}

func (w *watch) session(s *v1alpha1.VDISession, gone bool) {
	before := w.sessions[s.UID]
	if gone {
		delete(w.sessions, s.UID)
		return
	}
	w.sessions[s.UID] = s
	if placed(s) && (before == nil || before.Status.Placement == nil || before.Status.Placement.Epoch != s.Status.Placement.Epoch) {
		w.order = append(w.order, s.Name)
	}
	w.mostPlaced = max(w.mostPlaced, w.counted(placed))
}

func (w *watch) assignment(member string, o client.Object, gone bool) {
	if gone || !o.GetDeletionTimestamp().IsZero() {
		// An assignment that is being stopped holds only its Pod, which is counted
		// until it is gone and its capacity is free.
		delete(w.assignments[member], o.GetUID())
		return
	}
	w.assignments[member][o.GetUID()] = true
	w.mostHeld[member] = max(w.mostHeld[member], len(w.assignments[member]))
}

func (w *watch) pod(member string, p *corev1.Pod, gone bool) {
	if gone {
		delete(w.pods[member], p.UID)
		return
	}
	w.pods[member][p.UID] = true
	w.mostHeld[member] = max(w.mostHeld[member], len(w.pods[member]))
	for i := range p.Status.Conditions {
		c := &p.Status.Conditions[i]
		// No node fits while its volume is being provisioned either.
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable &&
			!strings.Contains(c.Message, "unbound immediate PersistentVolumeClaims") {
			w.stuck[member+"/"+p.Name] = c.Message
		}
	}
}

// count counts the sessions with a property, for Eventually.
func (w *watch) count(so func(*v1alpha1.VDISession) bool) func() int {
	return func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.counted(so)
	}
}

func (w *watch) counted(so func(*v1alpha1.VDISession) bool) int {
	n := 0
	for _, s := range w.sessions {
		if so(s) {
			n++
		}
	}
	return n
}

// those returns the sessions with a property, sorted by name.
func (w *watch) those(so func(*v1alpha1.VDISession) bool) []*v1alpha1.VDISession {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []*v1alpha1.VDISession
	for _, s := range w.sessions {
		if so(s) {
			out = append(out, s.DeepCopy())
		}
	}
	slices.SortFunc(out, func(a, b *v1alpha1.VDISession) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// where returns the numbers of placed sessions by member.
func (w *watch) where() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string]int{}
	for _, s := range w.sessions {
		if placed(s) {
			out[s.Status.Placement.ClusterName]++
		}
	}
	return out
}

func (w *watch) orderSoFar() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.order)
}

// most returns the most sessions that were placed, and the most assignments or Pods of
// each member, at any time since begin.
func (w *watch) most() (placed int, held map[string]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mostPlaced, maps.Clone(w.mostHeld)
}

func (w *watch) stuckPods() map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.stuck)
}
