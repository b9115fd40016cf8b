package session

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vdi-fleet/vdi-fleet/agent/fence"
	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	"github.com/vdi-fleet/vdi-fleet/agent/render"
	"github.com/vdi-fleet/vdi-fleet/agent/session/children"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Lease is the hub's permission to run fenced desktops: see fence.Keeper.
type Lease interface {
	// Status returns its status. Once it is valid, the cache shows each assignment that must
	// be affirmed first.
	Status() fence.Status
	// Require keeps it durable from now on.
	Require()
	// Changes receives an event when its state changes.
	Changes() <-chan event.GenericEvent
}

// fencing is the effect of modes Fence and Hold on an assignment.
type fencing struct {
	// guarded is set if each existing Pod has a guard, so that the hub may rely on it.
	guarded bool
	// guard and gate of the next Pod, if any: a guard for mode Fence, a gate for mode Hold.
	guard, gate *render.Guard
	// over is why the desktop must not run.
	over *observe.Problem
	// notYet is why no Pod is created. A running one goes on.
	notYet *observe.Problem
	// left is how long this is valid; zero until the next event.
	left time.Duration
}

// fence stops a fenced desktop without the hub's lease. Its running time does not count
// meanwhile, as while it is suspended. The next Pod of a held desktop gets a gate, if the agent
// creates gates.
func (r *Reconciler) fence(ctx context.Context, p *pass) error {
	mode, guard := p.Assignment.Spec.FailoverMode, r.ownGuard()
	if mode == api.FailoverHold && guard != nil {
		if p.fencing.gate = withKey(guard); p.fencing.gate == nil {
			p.fencing.notYet = &observe.Problem{Reason: api.ReasonPodPending, Message: "The Pod waits until the agent has the key that signs its answers to the desktop's gate."}
		}
	}
	if mode != api.FailoverFence && !p.Assignment.Status.Guarded {
		return nil
	}
	pod, err := children.Pods.Find(ctx, p.Set, p.Assignment.Name)
	if err != nil {
		return err
	}
	if !children.Pods.Owns(p.Assignment, pod) {
		pod = nil
	}
	if mode != api.FailoverFence {
		// An existing guard must still reach the agent.
		p.fencing.guarded = pod != nil && render.Guarded(pod)
		return nil
	}
	var lease fence.Status
	if guard != nil {
		r.Lease.Require()
		lease = p.lease
	}
	p.fencing = fencingOf(p.Assignment, pod, guard, lease)
	p.RequeueWithin(p.fencing.left)
	p.ending = p.fencing.over
	return nil
}

// fencingOf decides what may run of an assignment with its own Pod, if any, and the guard that
// the agent would create, if any. A desktop without a guard is not affected: the hub does not
// reschedule it before its stop is reported. Once guarded, a desktop is never created without
// a guard: the hub may rely on it before a report shows that there is none.
func fencingOf(a *api.SessionAssignment, pod *corev1.Pod, guard *render.Guard, lease fence.Status) fencing {
	if pod != nil && !render.Guarded(pod) {
		return fencing{guard: withKey(guard)}
	}
	if guard == nil {
		if pod == nil && !a.Status.Guarded {
			return fencing{}
		}
		return fencing{guarded: true, notYet: &observe.Problem{Reason: api.ReasonApplyFailed, Message: "The session's desktop had a guard, " +
			"on which the hub relies, and the agent creates none now: set its --guard-image again."}}
	}
	f := fencing{guarded: true, guard: withKey(guard)}
	switch {
	case lease.State == fence.Over:
		f.over = &observe.Problem{Reason: api.ReasonLeaseExpired, Message: "The hub has not renewed the lease in time: " +
			"the desktop is stopped, and runs again when the hub is reachable and has not rescheduled the session."}
	case a.Spec.Lapse < a.Status.Lapse:
		f.over = &observe.Problem{Reason: api.ReasonLeaseExpired, Message: fmt.Sprintf("The hub's lease was over (lapse %d): "+
			"the desktop runs again once the hub has affirmed that it did not reschedule the session.", a.Status.Lapse)}
	case lease.State == fence.Unknown, f.guard == nil:
		f.notYet = &observe.Problem{Reason: api.ReasonPodPending, Message: "The Pod waits until the agent has stored the hub's lease."}
	default:
		f.left = lease.Left
	}
	return f
}

// withKey returns the guard, or nil until the agent's key is known.
func withKey(g *render.Guard) *render.Guard {
	if g == nil || g.Key == "" {
		return nil
	}
	return g
}

// rendered returns the Pod that would be created.
func (p *pass) rendered() *corev1.Pod {
	switch f := p.fencing; {
	case f.guard != nil:
		return render.GuardedPod(p.Assignment, *f.guard)
	case f.gate != nil:
		return render.GatedPod(p.Assignment, *f.gate)
	default:
		return render.Pod(p.Assignment)
	}
}

// usersOfLease returns the fenced sessions, to which the lease matters, and the held ones, which
// wait for the key of their gates.
func (r *Reconciler) usersOfLease(ctx context.Context, _ client.Object) (requests []reconcile.Request) {
	var all api.SessionAssignmentList
	if err := r.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "Listing the fenced sessions")
		return nil
	}
	for i := range all.Items {
		a := &all.Items[i]
		if mode := a.Spec.FailoverMode; mode == api.FailoverFence || mode == api.FailoverHold && r.Options.Guard != nil {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(a)})
		}
	}
	return requests
}

// ownGuard returns the agent's parameters of guards and gates, and nil if it creates none.
func (d *Dependencies) ownGuard() *render.Guard {
	if d.Options.Guard == nil {
		return nil
	}
	own := *d.Options.Guard
	own.Key = d.GuardKey()
	return &own
}

// gateOutdated reports whether a desktop waits at a gate that would be created differently
// now, and may never open: the session's mode, or the agent's address, key or option to create
// gates has changed.
func gateOutdated(p *pass, pod *corev1.Pod) bool {
	have := render.Gate(pod)
	if have == nil || p.fencing.notYet != nil || gatePassed(pod) {
		return false
	}
	want := render.Gate(p.rendered())
	return want == nil || !slices.Equal(have.Args, want.Args)
}

// gatePassed reports whether a Pod's gate has opened.
func gatePassed(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.InitContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.Name == render.GateContainer && s.State.Terminated != nil && s.State.Terminated.ExitCode == 0
	})
}
