package session_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// agent is a member's agent without a network: it acknowledges orders through
// link.Member as a real agent does over gRPC. Like a member's API server, it keeps its
// assignments across connections.
type agent struct {
	name  string
	uid   types.UID
	world *world

	mu    sync.Mutex
	held  map[types.UID]*api.SessionAssignment
	floor map[types.UID]int64
	// slots is the capacity of each template, including what assignments use.
	slots int
	// lacks is why a template, by name, can't run there.
	lacks map[string]string
	// refuse returns why an assignment is refused, or empty strings.
	refuse func(*api.SessionAssignment) (reason, message string)
	// holdStops keeps withdrawn assignments stopping, holdStarts keeps Pods from becoming ready.
	holdStops, holdStarts bool
	// misfits is set if no node fits the Pods.
	misfits bool
	// A quiet agent renews no lease, a mute one ignores all orders.
	quiet, mute bool

	sequence  uint64
	instance  string
	templates *fleetv1.TemplateSet
	// forced are the sessions that were withdrawn by force.
	forced map[types.UID]bool
	// orders is the number of orders received, last the last one of each session.
	orders int
	last   map[types.UID]string

	open *stream
}

// stream is one connection of an agent: its link.Peer, and the one goroutine that sends
// on it.
type stream struct {
	agent  *agent
	member link.Member
	todo   chan func(link.Member)
	stop   context.CancelFunc
	done   chan struct{}
}

var _ link.Peer = &stream{}

func newAgent(name string, uid types.UID, w *world) *agent {
	return &agent{
		name: name, uid: uid, world: w, slots: 100, instance: string(uuid.NewUUID()),
		held: map[types.UID]*api.SessionAssignment{}, floor: map[types.UID]int64{},
		templates: &fleetv1.TemplateSet{}, last: map[types.UID]string{}, forced: map[types.UID]bool{},
	}
}

// connect opens a stream to the hub, as soon as the hub admits it.
func (a *agent) connect(h *hub) {
	GinkgoHelper()
	ctx, stop := context.WithCancel(context.Background())
	s := &stream{agent: a, todo: make(chan func(link.Member), 4096), stop: stop, done: make(chan struct{})}
	Eventually(func() (err error) {
		s.member, err = h.fleet.Open(ctx, a.uid, &fleetv1.Hello{Fingerprint: "fp-" + a.name, Instance: a.instance}, s)
		return err
	}).Should(Succeed())
	a.mu.Lock()
	a.open = s
	inventory := []*api.SessionAssignment{}
	for _, item := range a.held {
		inventory = append(inventory, reportOf(item))
	}
	capacity := a.capacity()
	a.mu.Unlock()
	go s.run(ctx, h, inventory, capacity)
}

func (s *stream) run(ctx context.Context, h *hub, inventory []*api.SessionAssignment, capacity *fleetv1.CapacityReport) {
	defer close(s.done)
	s.member.Part(convert.AllBuckets(), asReports(inventory...))
	s.member.Capacity(capacity)
	renew := time.NewTicker(timings.Renew)
	defer renew.Stop()
	for {
		select {
		case <-ctx.Done():
			s.member.Closed(nil)
			return
		case f := <-s.todo:
			f(s.member)
		case <-renew.C:
			s.agent.mu.Lock()
			quiet := s.agent.quiet
			s.agent.mu.Unlock()
			if !quiet {
				_, _ = h.fleet.Renew(s.agent.uid, link.Renewal{Instance: s.agent.instance})
			}
		}
	}
}

// disconnect ends the stream, and waits until its goroutine has closed the hub's side.
func (a *agent) disconnect() {
	a.mu.Lock()
	s := a.open
	a.open = nil
	a.mu.Unlock()
	if s != nil {
		s.stop()
		<-s.done
	}
}

// restart replaces the agent's process: only what the member's API server stores
// remains.
func (a *agent) restart() {
	a.disconnect()
	a.set(func() { a.instance, a.sequence, a.floor = string(uuid.NewUUID()), 0, map[types.UID]int64{} })
}

func (a *agent) set(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}

// Put receives an order, which the stream's goroutine executes.
func (s *stream) Put(o protocol.Order) {
	s.do(func(m link.Member) {
		if s.agent.current(s) {
			s.agent.carryOut(o, m)
		}
	})
}

// do runs f in the stream's goroutine, unless the stream has ended: a caller, such as a
// worker of the hub, is not blocked then.
func (s *stream) do(f func(link.Member)) {
	select {
	case s.todo <- f:
	case <-s.done:
	}
}

// SetTemplates reports the capacity for a new set of templates.
func (s *stream) SetTemplates(t *fleetv1.TemplateSet) {
	s.do(func(m link.Member) {
		s.agent.set(func() { s.agent.templates = t })
		m.Capacity(s.agent.report())
	})
}

// SetDoor does nothing: these members have no door.
func (*stream) SetDoor(*fleetv1.DoorConfig) {}

// Close ends the stream.
func (s *stream) Close(error) { s.stop() }

func (a *agent) current(s *stream) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.open == s
}

func (a *agent) report() *fleetv1.CapacityReport {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.capacity()
}

// capacity returns a report of the free capacity: one core and one Pod for each slot.
func (a *agent) capacity() *fleetv1.CapacityReport {
	a.sequence++
	free := int32(max(0, a.slots-a.busy()))
	report := &fleetv1.CapacityReport{Sequence: a.sequence, Nodes: int32(a.slots), AdmittedNamespaces: []string{"desktops", "elsewhere"}}
	for _, t := range a.templates.GetTemplates() {
		if why := a.lacks[t.GetName()]; why != "" {
			report.Templates = append(report.Templates, &fleetv1.TemplateCapacity{Name: t.GetName(), Revision: t.GetRevision(), Reason: why, Message: "it has none"})
			continue
		}
		report.Templates = append(report.Templates, &fleetv1.TemplateCapacity{
			Name: t.GetName(), Revision: t.GetRevision(), Available: true, Slots: free,
			Buckets: []*fleetv1.Bucket{{Nodes: free, Free: map[string]int64{"cpu": 1000, "memory": 1 << 30, "ephemeral-storage": 1 << 40, "pods": 1}}},
		})
	}
	return report
}

// count counts orders as the link would send them: one that equals the last of its
// session is not sent. The caller holds the lock.
func (a *agent) count(o protocol.Order) {
	content := ""
	if o.Assign != nil {
		content = o.Assign.Annotations[api.AnnotationSpecHash]
	} else {
		content = fmt.Sprint("withdraw ", o.Withdraw.UpToEpoch, o.Withdraw.Force)
	}
	if uid := o.SessionUID(); a.last[uid] != content {
		a.last[uid] = content
		a.orders++
	}
}

// busy returns the number of used slots. The caller holds the lock.
func (a *agent) busy() int {
	n := 0
	for _, held := range a.held {
		if !held.Idle() {
			n++
		}
	}
	return n
}

func (a *agent) carryOut(o protocol.Order, m link.Member) {
	mute := false
	a.set(func() { a.count(o); mute = a.mute })
	if mute {
		return
	}
	if w := o.Withdraw; w != nil {
		a.withdraw(w, m)
		return
	}
	a.store(o.Assign.DeepCopy(), m)
}

func (a *agent) store(order *api.SessionAssignment, m link.Member) {
	uid := order.Spec.Session.UID
	result := protocol.Result{
		SessionUID: uid, Namespace: order.Namespace, Name: order.Name, Epoch: order.Spec.Epoch,
		SpecHash: order.Annotations[api.AnnotationSpecHash],
	}
	a.mu.Lock()
	switch {
	case order.Spec.Epoch < a.floor[uid]:
		result.Code, result.Reason, result.Message = protocol.Refused, api.RefusedStaleEpoch, "stale"
	case a.refuse != nil:
		if result.Reason, result.Message = a.refuse(order); result.Reason != "" {
			result.Code = protocol.Refused
		}
	}
	if result.Code == protocol.Refused {
		a.mu.Unlock()
		m.Results([]protocol.Result{result})
		return
	}
	a.floor[uid] = order.Spec.Epoch
	a.keep(order)
	a.world.runs(a.name, order)
	order.Status.State = api.AssignmentActive
	if !a.holdStarts {
		order.Status.Conditions, order.Status.ObservedGeneration = conditions(order.Spec.RunState), 1
	}
	if a.misfits {
		api.SetCondition(&order.Status.Conditions, 1, metav1.Condition{
			Type: api.ConditionPodReady, Status: metav1.ConditionFalse, Reason: api.ReasonUnschedulablePod, Message: "No node fits the Pod",
		})
	}
	result.Code, result.CountedFrom = protocol.Stored, a.sequence+1
	report, capacity := reportOf(order), a.capacity()
	a.mu.Unlock()
	m.Results([]protocol.Result{result})
	m.Changes(asReports(report))
	m.Capacity(capacity)
}

// keep stores an order. A permanent failure remains until a higher attempt is ordered,
// and the time used is kept. The caller holds the lock.
func (a *agent) keep(order *api.SessionAssignment) {
	uid := order.Spec.Session.UID
	if old := a.held[uid]; old != nil && old.Spec.Epoch == order.Spec.Epoch {
		order.Status.TimeUsed, order.Status.Lapse, order.Status.Guarded = old.Status.TimeUsed, old.Status.Lapse, old.Status.Guarded
		if f := old.Status.Failure; f != nil && f.Attempt >= order.Spec.Attempt {
			order.Status.Failure = f
		}
	}
	a.held[uid] = order
}

func (a *agent) withdraw(w *fleetv1.Withdrawal, m link.Member) {
	uid := types.UID(w.SessionUid)
	a.mu.Lock()
	a.floor[uid] = max(a.floor[uid], w.UpToEpoch+1)
	a.forced[uid] = w.Force
	held := a.held[uid]
	mine := held != nil && held.Spec.Epoch <= w.UpToEpoch
	hold := a.holdStops && mine
	var report *api.SessionAssignment
	if mine {
		held.Status.State = api.AssignmentStopping
		report = reportOf(held)
	}
	a.mu.Unlock()
	result := protocol.Result{SessionUID: uid, Namespace: w.Namespace, Name: w.Name, Epoch: w.UpToEpoch, Code: protocol.Stored}
	m.Results([]protocol.Result{result})
	if report != nil {
		m.Changes(asReports(report))
	}
	if hold {
		return
	}
	if mine {
		a.set(func() { a.end(uid) })
	}
	result.Code = protocol.Stopped
	m.Results([]protocol.Result{result})
	m.Capacity(a.report())
}

// end removes a session's assignment. The caller holds the lock.
func (a *agent) end(uid types.UID) *api.SessionAssignment {
	held := a.held[uid]
	delete(a.held, uid)
	a.world.ends(a.name, uid)
	return held
}

func (a *agent) send(f func(link.Member)) {
	GinkgoHelper()
	a.mu.Lock()
	s := a.open
	a.mu.Unlock()
	Expect(s).NotTo(BeNil(), "agent %s is not connected", a.name)
	s.do(f)
}

func (a *agent) sessions() []types.UID {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(maps.Keys(a.held))
}

func (a *agent) holds(uid types.UID) *api.SessionAssignment {
	a.mu.Lock()
	defer a.mu.Unlock()
	if held := a.held[uid]; held != nil {
		return held.DeepCopy()
	}
	return nil
}

func (a *agent) ordersSeen() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.orders
}

// asReports returns reports as the link passes them to the hub.
func asReports(items ...*api.SessionAssignment) []protocol.Report {
	reports := make([]protocol.Report, 0, len(items))
	for _, item := range items {
		reports = append(reports, protocol.Report{SessionAssignment: item})
	}
	return reports
}

// reportOf returns the part of an assignment that an agent reports.
func reportOf(a *api.SessionAssignment) *api.SessionAssignment {
	r := &api.SessionAssignment{Status: *a.Status.DeepCopy()}
	r.Namespace, r.Name = a.Namespace, a.Name
	r.Annotations = maps.Clone(a.Annotations)
	r.Spec.Session, r.Spec.Epoch, r.Spec.Proof = a.Spec.Session, a.Spec.Epoch, a.Spec.Proof
	return r
}

func conditions(mode api.OperatingMode) []metav1.Condition {
	at := metav1.Unix(1_700_000_000, 0)
	pod := metav1.Condition{Type: api.ConditionPodReady, Status: metav1.ConditionTrue, Reason: api.ReasonPodReady, Message: "ready", LastTransitionTime: at}
	if mode == api.ModeSuspended {
		pod.Status, pod.Reason, pod.Message = metav1.ConditionFalse, api.ReasonSuspended, "suspended"
	}
	return []metav1.Condition{
		{Type: api.ConditionHomeReady, Status: metav1.ConditionTrue, Reason: api.ReasonNoHome, LastTransitionTime: at},
		pod,
		{Type: api.ConditionEndpointReady, Status: metav1.ConditionTrue, Reason: api.ReasonEndpointReady, LastTransitionTime: at},
	}
}
