package simulated

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	agentlink "github.com/vdi-fleet/vdi-fleet/agent/link"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// Member is a member without an API server: a map holds what its agent stores. It implements what
// the link needs of a member.
type Member struct {
	Name string
	// nodes is the number of nodes with capacity; with 0 it takes no sessions.
	nodes int32
	// namespace is the namespace of the sessions that it takes.
	namespace string
	// changed is called for every change, in the order of changes.
	changed func(member string, a *v1alpha1.SessionAssignment, deleted bool)
	link    *agentlink.Client

	mu sync.Mutex
	// The values of held are replaced and never changed.
	held      map[types.UID]*v1alpha1.SessionAssignment
	templates []*fleetv1.TemplateRequirements
	capacity  uint64
	terms     []int64
	termProof string
	versions  int
	// stalled blocks the delivery of orders until it is closed.
	stalled chan struct{}
}

// NewMember returns a member that holds nothing; changed may be nil.
func NewMember(name, namespace string, nodes int32, changed func(string, *v1alpha1.SessionAssignment, bool)) *Member {
	if changed == nil {
		changed = func(string, *v1alpha1.SessionAssignment, bool) {}
	}
	return &Member{Name: name, namespace: namespace, nodes: nodes, changed: changed, held: map[types.UID]*v1alpha1.SessionAssignment{}, capacity: 1}
}

// Sending ignores renewals: no session of the member is fenced.
func (m *Member) Sending() (granted func(time.Duration)) { return func(time.Duration) {} }

// StopReading blocks the next order, and with it the only reader of the stream; renewals and
// reports continue.
func (m *Member) StopReading() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stalled = make(chan struct{})
}

// ResumeReading ends the effect of StopReading.
func (m *Member) ResumeReading() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stalled != nil {
		close(m.stalled)
		m.stalled = nil
	}
}

// Leaders returns how many hub terms it has observed, at least one for each leader.
func (m *Member) Leaders() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.terms)
}

// Assignments returns the assignments that it holds.
func (m *Member) Assignments() map[types.UID]*v1alpha1.SessionAssignment {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.held)
}

// List implements agentlink.Assignments.
func (m *Member) List(context.Context) ([]agentlink.InventoryItem, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	held := make([]agentlink.InventoryItem, 0, len(m.held))
	for _, uid := range slices.Sorted(maps.Keys(m.held)) {
		held = append(held, agentlink.InventoryItem{Ref: refOf(m.held[uid]), Version: m.held[uid].ResourceVersion})
	}
	return held, nil
}

func refOf(a *v1alpha1.SessionAssignment) agentlink.Ref {
	return agentlink.Ref{UID: a.Spec.Session.UID, NamespacedName: types.NamespacedName{Namespace: a.Namespace, Name: a.Name}}
}

// Render implements agentlink.Assignments.
func (m *Member) Render(r agentlink.Ref) *fleetv1.AssignmentReport {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.held[r.UID]
	if a == nil {
		return nil
	}
	return convert.ReportToWire(a)
}

// Put implements agentlink.Orders.
func (m *Member) Put(order *fleetv1.Order) {
	m.mu.Lock()
	stalled := m.stalled
	m.mu.Unlock()
	if stalled != nil {
		<-stalled
	}
	if w := order.GetWithdraw(); w != nil {
		m.withdraw(w)
	} else {
		m.assign(order.GetAssign())
	}
}

// withdraw deletes an assignment at once: there is no Pod to wait for.
func (m *Member) withdraw(w *fleetv1.Withdrawal) {
	uid := types.UID(w.GetSessionUid())
	m.mu.Lock()
	if a := m.held[uid]; a != nil && a.Spec.Epoch <= w.GetUpToEpoch() {
		delete(m.held, uid)
		m.changed(m.Name, a, true)
	}
	m.mu.Unlock()
	m.link.Mark(agentlink.Ref{UID: uid, NamespacedName: types.NamespacedName{Namespace: w.GetNamespace(), Name: w.GetName()}})
	m.link.Add(&fleetv1.OrderResult{
		SessionUid: w.GetSessionUid(), Namespace: w.GetNamespace(), Name: w.GetName(), Epoch: w.GetUpToEpoch(),
		Code: fleetv1.ResultCode_RESULT_CODE_STOPPED,
	})
}

func (m *Member) assign(order *fleetv1.Assignment) {
	answer := &fleetv1.OrderResult{
		SessionUid: order.GetSessionUid(), Namespace: order.GetNamespace(), Name: order.GetName(), Epoch: order.GetEpoch(),
		SpecHash: order.GetSpecHash(), Code: fleetv1.ResultCode_RESULT_CODE_STORED,
	}
	a, err := convert.AssignmentFromWire(order)
	if err != nil {
		answer.Code, answer.Reason, answer.Message = fleetv1.ResultCode_RESULT_CODE_REFUSED, v1alpha1.RefusedInvalid, err.Error()
		m.link.Add(answer)
		return
	}
	a.Status = v1alpha1.SessionAssignmentStatus{ObservedGeneration: 1, State: v1alpha1.AssignmentActive}
	ready := metav1.ConditionTrue
	if a.Spec.RunState == v1alpha1.ModeSuspended {
		ready = metav1.ConditionFalse
	}
	for _, condition := range []string{v1alpha1.ConditionHomeReady, v1alpha1.ConditionPodReady, v1alpha1.ConditionEndpointReady} {
		setCondition(a, condition, ready)
	}
	m.mu.Lock()
	if before := m.held[a.Spec.Session.UID]; before == nil || before.Spec.Epoch <= a.Spec.Epoch {
		m.store(a)
	}
	answer.CountedFromCapacity = m.capacity
	m.mu.Unlock()
	m.link.Mark(refOf(a))
	m.link.Add(answer)
}

func setCondition(a *v1alpha1.SessionAssignment, condition string, status metav1.ConditionStatus) {
	meta.SetStatusCondition(&a.Status.Conditions, metav1.Condition{
		Type: condition, Status: status, Reason: "Simulated", ObservedGeneration: 1,
	})
}

// SetReady changes whether a desktop is ready. It reports whether there is such a desktop.
func (m *Member) SetReady(session types.UID, ready metav1.ConditionStatus) bool {
	m.mu.Lock()
	a := m.held[session]
	if a != nil {
		a = a.DeepCopy()
		setCondition(a, v1alpha1.ConditionPodReady, ready)
		m.store(a)
	}
	m.mu.Unlock()
	if a == nil {
		return false
	}
	m.link.Mark(refOf(a))
	return true
}

// store stores a new version. The caller holds the lock.
func (m *Member) store(a *v1alpha1.SessionAssignment) {
	m.versions++
	a.ResourceVersion = strconv.Itoa(m.versions)
	m.held[a.Spec.Session.UID] = a
	m.changed(m.Name, a, false)
}

// Report implements agentlink.Capacity: there is capacity for any number of sessions, or for none.
func (m *Member) Report() *fleetv1.CapacityReport {
	m.mu.Lock()
	defer m.mu.Unlock()
	report := &fleetv1.CapacityReport{Sequence: m.capacity, Nodes: m.nodes, Assignments: int32(len(m.held)), AdmittedNamespaces: []string{m.namespace}}
	if m.nodes == 0 {
		return report
	}
	for _, t := range m.templates {
		report.Templates = append(report.Templates, &fleetv1.TemplateCapacity{
			Name: t.GetName(), Revision: t.GetRevision(), Available: true, Slots: 100 * m.nodes,
			Buckets: []*fleetv1.Bucket{{Nodes: m.nodes, Free: map[string]int64{
				string(corev1.ResourceCPU): 1e6, string(corev1.ResourceMemory): 1 << 40, string(corev1.ResourceEphemeralStorage): 1 << 50, string(corev1.ResourcePods): 100,
			}}},
		})
	}
	return report
}

// NextSequence implements agentlink.Capacity.
func (m *Member) NextSequence() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.capacity++
	return m.capacity
}

// SetTemplates implements agentlink.Capacity.
func (m *Member) SetTemplates(set *fleetv1.TemplateSet) {
	m.mu.Lock()
	m.templates = set.GetTemplates()
	m.capacity++
	m.mu.Unlock()
	m.link.CapacityChanged()
}

// Begin implements agentlink.Terms.
func (m *Member) Begin(context.Context) (agentTerm int64, highest agentlink.HubTerm, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(m.terms); n > 0 {
		highest = agentlink.HubTerm{Term: m.terms[n-1], Proof: m.termProof}
	}
	return 1, highest, nil
}

// Observe implements agentlink.Terms.
func (m *Member) Observe(_ context.Context, term agentlink.HubTerm) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(m.terms); n == 0 || m.terms[n-1] != term.Term {
		m.terms = append(m.terms, term.Term)
	}
	m.termProof = term.Proof
	return nil
}
