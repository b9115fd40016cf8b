package main

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/agent/identity"
	"github.com/vdi-fleet/vdi-fleet/agent/link"
	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// Delays of a simulated member: until its API server has stored an order, until a desktop is
// ready, and until it has stopped. Each is between half and one and a half of it.
const (
	storeDelay = 20 * time.Millisecond
	startDelay = 2 * time.Second
	stopDelay  = time.Second
)

// member is a simulated member: its assignments, and the capacity that they leave.
type member struct {
	name, region string
	uid          types.UID
	fleet        *fleet
	hubAddress   string

	keeper     *identity.Keeper
	turns      *turns
	connection link.Member
	// hub is the link of the running process; stop ends it, and running is its goroutines.
	hub     *link.Client
	stop    context.CancelFunc
	running sync.WaitGroup

	mu          sync.Mutex
	assignments map[types.UID]*v1alpha1.SessionAssignment
	version     int
	capacity    capacity
	// agentTerm counts its processes; hubTerm is the highest that it has seen.
	agentTerm int64
	hubTerm   link.HubTerm
}

// about returns a random duration around d.
func about(d time.Duration) time.Duration {
	return d/2 + rand.N(d)
}

// Put receives an order.
func (m *member) Put(order *fleetv1.Order) {
	if w := order.GetWithdraw(); w != nil {
		time.AfterFunc(about(storeDelay), func() { m.withdraw(w) })
	}
	if w := order.GetAssign(); w != nil {
		a, err := convert.AssignmentFromWire(w)
		if err != nil {
			m.fleet.fail("%s receives an assignment that it can't read: %w", m.name, err)
			return
		}
		time.AfterFunc(about(storeDelay), func() { m.store(a) })
	}
}

func (m *member) store(a *v1alpha1.SessionAssignment) {
	uid := a.Spec.Session.UID
	m.mu.Lock()
	if known := m.assignments[uid]; known != nil && known.Spec.Epoch > a.Spec.Epoch {
		m.mu.Unlock()
		return
	} else if known != nil {
		a.Status = known.Status
	} else {
		a.Status = v1alpha1.SessionAssignmentStatus{State: v1alpha1.AssignmentActive}
		m.capacity.add(a.Name, a.Spec.Desktop.Resources)
	}
	a.Generation, a.Spec.Desktop.Files, a.Spec.Desktop.Env = 1, nil, nil
	m.set(a)
	counted := m.requireReport()
	m.mu.Unlock()
	m.hub.Add(&fleetv1.OrderResult{
		SessionUid: string(uid), Namespace: a.Namespace, Name: a.Name, Epoch: a.Spec.Epoch,
		SpecHash: a.Annotations[v1alpha1.AnnotationSpecHash], Code: fleetv1.ResultCode_RESULT_CODE_STORED, CountedFromCapacity: counted,
	})
	m.hub.Mark(ref(a))
	time.AfterFunc(about(startDelay), func() { m.run(uid) })
}

// set stores a version of an assignment.
func (m *member) set(a *v1alpha1.SessionAssignment) {
	m.version++
	a.ResourceVersion = strconv.Itoa(m.version)
	m.assignments[a.Spec.Session.UID] = a
}

// run makes a desktop ready.
func (m *member) run(uid types.UID) {
	if a := m.ready(uid); a != nil {
		m.hub.Mark(ref(a))
	}
}

// ready stores that a desktop is ready, and returns its assignment. The link calls the member
// with its own lock held: with the member's, nothing calls the link.
func (m *member) ready(uid types.UID) *v1alpha1.SessionAssignment {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.assignments[uid]
	if a == nil || a.Status.State != v1alpha1.AssignmentActive || a.Status.StartTime != nil {
		return nil
	}
	a = a.DeepCopy()
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	a.Status.ObservedGeneration, a.Status.NodeName, a.Status.StartTime, a.Status.RunningSince = a.Generation, "node-1", &now, &now
	for _, kind := range observe.Kinds {
		v1alpha1.SetCondition(&a.Status.Conditions, a.Generation, metav1.Condition{
			Type: kind, Status: metav1.ConditionTrue, Reason: "Simulated", Message: "The desktop is simulated.", LastTransitionTime: now,
		})
	}
	m.set(a)
	return a
}

// withdraw stops a desktop.
func (m *member) withdraw(w *fleetv1.Withdrawal) {
	uid := types.UID(w.GetSessionUid())
	a, stops := m.stopping(uid, w.GetUpToEpoch())
	if !stops {
		m.hub.Add(result(w))
	}
	if a == nil {
		return
	}
	time.AfterFunc(about(stopDelay), func() {
		m.mu.Lock()
		delete(m.assignments, uid)
		m.capacity.remove(a.Name)
		m.requireReport()
		m.mu.Unlock()
		m.hub.Mark(ref(a))
		m.hub.Add(result(w))
	})
}

// stopping stores that a desktop stops, and returns its assignment unless it stops already. It
// reports false if there is none of those epochs.
func (m *member) stopping(uid types.UID, upTo int64) (*v1alpha1.SessionAssignment, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.assignments[uid]
	if a == nil || a.Spec.Epoch > upTo {
		return nil, false
	}
	if a.Status.State == v1alpha1.AssignmentStopping {
		return nil, true
	}
	a = a.DeepCopy()
	a.Status.State = v1alpha1.AssignmentStopping
	m.set(a)
	return a, true
}

func result(w *fleetv1.Withdrawal) *fleetv1.OrderResult {
	return &fleetv1.OrderResult{
		SessionUid: w.GetSessionUid(), Namespace: w.GetNamespace(), Name: w.GetName(), Epoch: w.GetUpToEpoch(),
		Code: fleetv1.ResultCode_RESULT_CODE_STOPPED,
	}
}

func ref(a *v1alpha1.SessionAssignment) link.Ref {
	return link.Ref{UID: a.Spec.Session.UID, NamespacedName: client.ObjectKeyFromObject(a)}
}

// List implements link.Assignments.
func (m *member) List(context.Context) ([]link.InventoryItem, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	items := make([]link.InventoryItem, 0, len(m.assignments))
	for _, a := range m.assignments {
		items = append(items, link.InventoryItem{Ref: ref(a), Version: a.ResourceVersion})
	}
	return items, nil
}

// Render implements link.Assignments.
func (m *member) Render(r link.Ref) *fleetv1.AssignmentReport {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a := m.assignments[r.UID]; a != nil {
		return convert.ReportToWire(a)
	}
	return nil
}

// Begin implements link.Terms.
func (m *member) Begin(context.Context) (int64, link.HubTerm, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.agentTerm++
	return m.agentTerm, m.hubTerm, nil
}

// Observe implements link.Terms.
func (m *member) Observe(_ context.Context, term link.HubTerm) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if term.Term >= m.hubTerm.Term {
		m.hubTerm = term
	}
	return nil
}

// Sending implements link.Lease: it measures renewals.
func (m *member) Sending() func(time.Duration) {
	sent := time.Now()
	return func(time.Duration) {
		m.fleet.renewals.add(m, sent, time.Now())
		m.turns.end()
	}
}
