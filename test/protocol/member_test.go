package protocol

import (
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	agentlink "github.com/vdi-fleet/vdi-fleet/agent/link"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

const debounce = 50 * time.Millisecond

// member is a member as the link sees it: held is its API server, which
// outlives the agent's process.
type member struct {
	now     time.Time
	term    int64
	highest int64 // of the hub's terms; durable too
	held    map[string]*item

	floors map[string]int64
	// withdrawn is the epoch up to which an assignment that is being stopped was withdrawn.
	withdrawn map[string]int64
	machine   *agentlink.Machine
	reporter  *agentlink.Reporter
	results   *agentlink.Results
	// pending are orders that the API server has not accepted yet.
	pending  []*fleetv1.Order
	capacity uint64
	// summary outlives streams, tuning outlives processes.
	summary agentlink.Summary
	tuning  tuning
	// dressed makes reports as large as those of desktops.
	dressed bool
}

// tuning configures the agent's side. Protocols above 1 are a synthetic next version.
type tuning struct {
	minProtocol, maxProtocol int32
	required                 []string
	supported                []string
}

func newMember() *member {
	m := &member{held: map[string]*item{}, tuning: tuning{minProtocol: 1, maxProtocol: 1}}
	m.restart()
	return m
}

// restart starts a new process with the same API server.
func (m *member) restart() {
	m.term++
	m.floors, m.withdrawn = map[string]int64{}, map[string]int64{}
	m.pending, m.machine, m.capacity = nil, nil, 0
	m.summary = agentlink.Summary{}
	m.reporter, m.results = agentlink.NewReporter(debounce), agentlink.NewResults()
}

func (m *member) begin() {
	m.machine = agentlink.NewMachine(&fleetv1.Hello{
		MinProtocol: m.tuning.minProtocol, MaxProtocol: m.tuning.maxProtocol, Instance: "i", Fingerprint: "f",
		Capabilities: m.tuning.supported, RequiredCapabilities: m.tuning.required, AgentVersion: "1.2",
		AgentTerm: m.term, HighestHubTerm: m.highest,
	}, m.reporter, m.results)
}

func (m *member) apply(e agentlink.Effect) {
	if e.Welcome != nil {
		m.highest = max(m.highest, e.Welcome.GetHubTerm())
		m.machine.Begin(m.refs(), m.capacity+1)
	}
	if e.List {
		m.machine.Listed(m.refs())
	}
	m.pending = append(m.pending, e.Orders...)
}

// refs updates the summary and returns references to what is held.
func (m *member) refs() (refs []agentlink.Ref) {
	listed := m.listed()
	m.summary.Update(listed, m.render)
	for i := range listed {
		refs = append(refs, listed[i].Ref)
	}
	return refs
}

// listed returns what a list of the API server contains now.
func (m *member) listed() (listed []agentlink.InventoryItem) {
	for _, uid := range sorted(m.held) {
		listed = append(listed, agentlink.InventoryItem{Ref: ref(uid), Version: fmt.Sprintf("%+v", *m.held[uid])})
	}
	return listed
}

func (m *member) sources() agentlink.Sources {
	return agentlink.Sources{Render: m.render, Capacity: m.capacityReport, Hash: m.summary.Hash}
}

// syncState returns what the agent reports with a renewal.
func (m *member) syncState() *fleetv1.SyncState {
	if m.machine == nil {
		return nil
	}
	m.refs()
	return m.machine.SyncState(m.summary.Assigned())
}

// work carries out the oldest order, as agent/assignment does.
func (m *member) work() bool {
	if len(m.pending) == 0 {
		return false
	}
	order := m.pending[0]
	m.pending = m.pending[1:]
	if w := order.GetWithdraw(); w != nil {
		m.withdraw(w)
	} else {
		m.store(order)
	}
	return true
}

func (m *member) store(order *fleetv1.Order) {
	a := order.GetAssign()
	uid := a.GetSessionUid()
	held := m.held[uid]
	switch {
	case a.GetEpoch() < m.floors[uid], held != nil && a.GetEpoch() < held.epoch:
		m.answer(a, fleetv1.ResultCode_RESULT_CODE_REFUSED, v1alpha1.RefusedStaleEpoch)
		return
	case held != nil && held.state == "Stopping":
		if a.GetEpoch() == held.epoch {
			m.answer(a, fleetv1.ResultCode_RESULT_CODE_REFUSED, v1alpha1.RefusedStaleEpoch)
		} else {
			m.pending = append(m.pending, order)
		}
		return
	}
	m.floors[uid] = a.GetEpoch()
	m.held[uid] = &item{epoch: a.GetEpoch(), hash: a.GetSpecHash(), state: "Active"}
	m.mark(uid)
	m.answer(a, fleetv1.ResultCode_RESULT_CODE_STORED, "")
}

func (m *member) answer(a *fleetv1.Assignment, code fleetv1.ResultCode, reason string) {
	m.results.Add(&fleetv1.OrderResult{SessionUid: a.GetSessionUid(), Namespace: a.GetNamespace(), Name: a.GetName(),
		Epoch: a.GetEpoch(), SpecHash: a.GetSpecHash(), Code: code, Reason: reason})
}

func (m *member) withdraw(w *fleetv1.Withdrawal) {
	uid, upTo := w.GetSessionUid(), w.GetUpToEpoch()
	m.floors[uid] = max(m.floors[uid], upTo+1)
	held := m.held[uid]
	if held == nil || held.epoch > upTo {
		m.report(uid, upTo, fleetv1.ResultCode_RESULT_CODE_STOPPED)
		return
	}
	held.state = "Stopping"
	m.withdrawn[uid] = max(m.withdrawn[uid], upTo)
	m.mark(uid)
	m.report(uid, upTo, fleetv1.ResultCode_RESULT_CODE_STORED)
}

// stopped ends an assignment, with or without an order.
func (m *member) stopped(uid string) {
	held := m.held[uid]
	if held == nil {
		return
	}
	upTo := max(held.epoch, m.withdrawn[uid])
	delete(m.held, uid)
	delete(m.withdrawn, uid)
	m.floors[uid] = max(m.floors[uid], upTo+1)
	m.mark(uid)
	m.report(uid, upTo, fleetv1.ResultCode_RESULT_CODE_STOPPED)
}

func (m *member) report(uid string, epoch int64, code fleetv1.ResultCode) {
	m.results.Add(&fleetv1.OrderResult{SessionUid: uid, Namespace: "desks", Name: uid, Epoch: epoch, Code: code})
}

// changes sets the status that the agent reports of a session.
func (m *member) changes(uid, state string) {
	if held := m.held[uid]; held != nil {
		held.state = state
		m.mark(uid)
	}
}

func (m *member) mark(uid string) { m.reporter.Mark(ref(uid)) }

func (m *member) render(r agentlink.Ref) *fleetv1.AssignmentReport {
	held := m.held[string(r.UID)]
	if held == nil {
		return nil
	}
	report := &fleetv1.AssignmentReport{SessionUid: string(r.UID), Namespace: r.Namespace, Name: r.Name,
		Epoch: held.epoch, SpecHash: held.hash, Status: &fleetv1.AssignmentStatus{State: held.state}}
	if m.dressed {
		dress(report)
	}
	return report
}

func (m *member) capacityReport() *fleetv1.CapacityReport {
	m.capacity++
	return &fleetv1.CapacityReport{Sequence: m.capacity, Assignments: int32(len(m.held))}
}

func ref(uid string) agentlink.Ref {
	return agentlink.Ref{UID: types.UID(uid), NamespacedName: types.NamespacedName{Namespace: "desks", Name: uid}}
}

func itemOf(a *v1alpha1.SessionAssignment) item {
	return item{epoch: a.Spec.Epoch, hash: a.Annotations[v1alpha1.AnnotationSpecHash], state: string(a.Status.State)}
}

func assignment(uid string, epoch int64, hash string) protocol.Order {
	a := &v1alpha1.SessionAssignment{ObjectMeta: metav1.ObjectMeta{Namespace: "desks", Name: uid,
		Annotations: map[string]string{v1alpha1.AnnotationSpecHash: hash}}}
	a.Spec.Session.UID, a.Spec.Epoch = types.UID(uid), epoch
	return protocol.Order{Assign: a}
}

func withdrawal(uid string, upTo int64) protocol.Order {
	return protocol.Order{Withdraw: &fleetv1.Withdrawal{SessionUid: uid, Namespace: "desks", Name: uid, UpToEpoch: upTo}}
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
