package session

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	"github.com/vdi-fleet/vdi-fleet/agent/render"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// hold has the next Pod of a held desktop start behind a gate, where the agent makes
// any. A Pod that is there is left as it is.
func (r *Reconciler) hold(p *pass) {
	guard := r.ownGuard()
	if guard == nil {
		return
	}
	if p.fencing.gate = known(guard); p.fencing.gate == nil {
		p.fencing.notYet = &observe.Problem{Reason: api.ReasonPodPending, Message: "The Pod waits until the agent has the key with which it answers the desktop's gate."}
	}
}

// ownGuard is what guards and gates are told of this agent; nil: it makes none.
func (r *Reconciler) ownGuard() *render.Guard {
	if r.Options.Guard == nil {
		return nil
	}
	own := *r.Options.Guard
	if r.GuardKey != nil {
		own.Key = r.GuardKey()
	}
	return &own
}

// gateIsShut reports whether a desktop that has not started waits at a gate that
// would not be made as it is any more, and may wait for good: the session's mode has
// changed, or the agent's address or key, or it makes no gates.
func gateIsShut(p *pass, pod *corev1.Pod) bool {
	have := render.Gate(pod)
	if have == nil || p.fencing.notYet != nil || hasPassed(pod) {
		return false
	}
	want := render.Gate(p.rendered())
	return want == nil || !slices.Equal(have.Args, want.Args)
}

// hasPassed reports whether a Pod's gate has let its desktop start.
func hasPassed(pod *corev1.Pod) bool {
	for _, s := range pod.Status.InitContainerStatuses {
		if s.Name == render.GateContainer {
			return s.State.Terminated != nil && s.State.Terminated.ExitCode == 0
		}
	}
	return false
}
