package session_test

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
)

// Changes in a member without an order, which its agent reports.

// fail reports that an assignment has failed permanently, and the capacity that this frees.
func (a *agent) fail(uid types.UID, reason, message string) {
	a.send(func(m link.Member) {
		a.mu.Lock()
		held := a.held[uid]
		held.Status.Reason, held.Status.Message = reason, message
		held.Status.Failure = &api.Failure{Attempt: held.Spec.Attempt, Reason: reason, Message: message}
		held.Status.Conditions = conditions(api.ModeSuspended)
		held.Status.Conditions[1].Reason, held.Status.Conditions[1].Message = reason, message
		report, capacity := reportOf(held), a.capacity()
		a.mu.Unlock()
		m.Changes(asReports(report))
		m.Capacity(capacity)
	})
}

// updateStatus changes the status of an assignment and reports it.
func (a *agent) updateStatus(uid types.UID, change func(*api.SessionAssignmentStatus)) {
	a.send(func(m link.Member) {
		a.mu.Lock()
		change(&a.held[uid].Status)
		report := reportOf(a.held[uid])
		a.mu.Unlock()
		m.Changes(asReports(report))
	})
}

// finishStops confirms the stops that were held back.
func (a *agent) finishStops() {
	a.set(func() { a.holdStops = false })
	a.send(func(m link.Member) {
		for _, uid := range a.sessions() {
			if a.holds(uid).Status.State == api.AssignmentStopping {
				a.stopped(uid, m)
			}
		}
	})
}

// deleteByHand removes an assignment in the member without an order.
func (a *agent) deleteByHand(uid types.UID) {
	a.send(func(m link.Member) { a.stopped(uid, m) })
}

func (a *agent) stopped(uid types.UID, m link.Member) {
	a.mu.Lock()
	held := a.end(uid)
	a.floor[uid] = held.Spec.Epoch + 1
	capacity := a.capacity()
	a.mu.Unlock()
	m.Results([]protocol.Result{{
		SessionUID: uid, Namespace: held.Namespace, Name: held.Name, Epoch: held.Spec.Epoch, Code: protocol.Stopped,
	}})
	m.Capacity(capacity)
}

// become reports conditions of an assignment.
func (a *agent) become(uid types.UID, conditions []metav1.Condition) {
	a.send(func(m link.Member) {
		a.mu.Lock()
		a.held[uid].Status.Conditions, a.held[uid].Status.ObservedGeneration = conditions, 1
		report := reportOf(a.held[uid])
		a.mu.Unlock()
		m.Changes(asReports(report))
	})
}

// storeUnordered stores an assignment without an order.
func (a *agent) storeUnordered(item *api.SessionAssignment) {
	a.set(func() {
		item.Status.State = api.AssignmentActive
		a.held[item.Spec.Session.UID] = item
	})
}

// expire ends a desktop whose time is over, by the agent's account.
func (a *agent) expire(s *api.VDISession) {
	over := conditions(api.ModeSuspended)
	over[1].Reason = api.ReasonTimeExpired
	a.updateStatus(s.UID, func(status *api.SessionAssignmentStatus) {
		status.Conditions, status.TimeUsed = over, s.Spec.Timeout
	})
}
