package session

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/assignment"
	"github.com/vdi-fleet/vdi-fleet/hub/home"
	"github.com/vdi-fleet/vdi-fleet/hub/member"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
	"github.com/vdi-fleet/vdi-fleet/hub/secret"
	"github.com/vdi-fleet/vdi-fleet/hub/session/lifecycle"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
	"github.com/vdi-fleet/vdi-fleet/proto/concurrent"
	"github.com/vdi-fleet/vdi-fleet/proto/denied"
)

// gatherer reads what lifecycle.Next depends on.
type gatherer struct{ *Reconciler }

// gather returns what lifecycle.Next depends on.
func (g gatherer) gather(ctx context.Context, s *v1alpha1.VDISession, reports []*assignment.Report) (*lifecycle.Input, error) {
	in := &lifecycle.Input{Now: g.Clock.Now(), Session: s, Reports: reports, Timings: g.Timings.OrDefaults(), Console: g.Console}
	for _, rep := range reports {
		if !lifecycle.ShowsRestore(s, rep) {
			continue
		}
		if err := g.detectRestore(ctx, s); err != nil {
			return nil, err
		}
	}
	in.Restore = g.restored(s)
	if s.DeletionTimestamp.IsZero() {
		for _, read := range []func(context.Context, *lifecycle.Input) error{g.policies, g.home, g.template} {
			if err := read(ctx, in); err != nil {
				return nil, err
			}
		}
		g.order(ctx, in)
		in.NotServed = g.Orders.NotServed(s.Namespace)
	}
	g.members(in)
	in.Known.Known = g.memory.Known(s, in.Now, g.Fleet.ReportedAt)
	return in, nil
}

// policies reads all placement policies.
func (g gatherer) policies(ctx context.Context, in *lifecycle.Input) error {
	list := &v1alpha1.PlacementPolicyList{}
	if err := g.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing placement policies: %w", err)
	}
	in.Policies = g.prepared.Of(list.Items)
	return nil
}

// home reads the record of the session's PerUser home.
func (g gatherer) home(ctx context.Context, in *lifecycle.Input) error {
	h := &v1alpha1.VDIHome{}
	switch err := g.Client.Get(ctx, home.Key(in.Session), h); {
	case apierrors.IsNotFound(err):
	case err != nil:
		return fmt.Errorf("reading the home: %w", err)
	default:
		in.Home = h
	}
	return nil
}

// template reads the revision that the session runs, and the current template if it may
// run that next.
func (g gatherer) template(ctx context.Context, in *lifecycle.Input) error {
	s, t := in.Session, &in.Template
	retried := s.Spec.Attempt > s.Status.Attempt
	placed := s.Status.Placement != nil
	if placed || s.Status.StartTime != nil && !retried {
		spec, err := g.Orders.Revisions.Spec(ctx, s.Spec.Template, s.Status.TemplateRevision)
		if err != nil {
			t.Unread = fmt.Errorf("reading template revision %s of %s: %w", s.Status.TemplateRevision, s.Spec.Template, err)
		}
		t.Run = spec
	}
	if placed && !retried {
		return nil
	}
	current := &v1alpha1.VDITemplate{}
	err := g.Client.Get(ctx, types.NamespacedName{Name: s.Spec.Template}, current, client.UnsafeDisableDeepCopy) // never changed
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the template: %w", err)
	}
	if t.Revision, err = g.Orders.Revisions.Of(current); err != nil {
		return err
	}
	t.Current = current
	return nil
}

// order renders the session's desired assignment, once the session has its access secret,
// if the member's report has to be compared with it.
func (g gatherer) order(ctx context.Context, in *lifecycle.Input) {
	s := in.Session
	rep := lifecycle.ReportOfPlacement(s, in.Reports)
	if rep == nil || !lifecycle.NeedsOrder(s, rep) {
		return
	}
	if in.NoOrder = g.keepSecret(ctx, s); in.NoOrder == nil {
		in.Order, in.NoOrder = g.Orders.For(ctx, s, rep.Ref)
	}
	if denied.Is(in.NoOrder) {
		in.NoOrder = &secret.NotAssignableError{Reason: v1alpha1.ReasonWriteDenied, Message: denied.Explain(in.NoOrder)}
	}
}

// keepSecret makes the access secret as the session's current run needs it.
func (g gatherer) keepSecret(ctx context.Context, s *v1alpha1.VDISession) error {
	if err := g.Orders.Check(s); err != nil {
		return err
	}
	spec, err := g.Orders.Revisions.Spec(ctx, s.Spec.Template, s.Status.TemplateRevision)
	if err != nil {
		return err
	}
	return g.Orders.Secrets.Keep(ctx, s, spec)
}

// keepFirstSecret begins to create the access secret of a session that is placed for the first
// time, while its placement is written, and returns how to wait for it, nil for another session.
// A later run changes the secret only once its placement is written: if that fails, the desktop
// of the previous run keeps its password.
func (g gatherer) keepFirstSecret(ctx context.Context, s *v1alpha1.VDISession, plan *lifecycle.Plan) (wait func() error) {
	if plan.Placed == nil || plan.Err != nil || s.Status.Epoch > 0 {
		return nil
	}
	placed := plan.Session.DeepCopy()
	return concurrent.Begin(func() error { return g.keepSecret(ctx, placed) })
}

// members reads the state of the members that the session names.
func (g gatherer) members(in *lifecycle.Input) {
	named := sets.New[types.UID]()
	for _, o := range status.Outstanding(in.Session) {
		named.Insert(o.ClusterUID)
	}
	for _, rep := range in.Reports {
		named.Insert(rep.Ref.UID)
	}
	if h := in.Home; h != nil {
		named.Insert(h.Spec.ClusterUID)
		for i := range h.Status.LeftBehind {
			named.Insert(h.Status.LeftBehind[i].ClusterUID)
		}
	}
	in.Members = make(map[types.UID]member.State, len(named))
	for uid := range named {
		in.Members[uid] = g.Fleet.State(uid)
	}
}

// nodeWait returns how long a session's member still has to find a node for its Pod. One that adds
// no node has no more time: it has found none, and its autoscaler has had its time.
func (g gatherer) nodeWait(in *lifecycle.Input) time.Duration {
	s := in.Session
	switch lifecycle.WithoutNode(s) {
	case v1alpha1.ReasonScaleUpFailed:
		return 0
	case v1alpha1.ReasonNodeProvisioning:
		g.memory.Settled(s) // if the node does not come, kube-scheduler has its whole time again
		limit := v1alpha1.DefaultMaxProvisioningTime
		if policy, _ := in.Policies.Governing(s); policy != nil {
			limit = policy.Spec.ProvisioningLimit()
		}
		return max(0, s.Status.Placement.PlacementTime.Add(limit).Sub(in.Now))
	}
	return g.memory.MisfitWait(s, in.Now, in.Timings.MoveAfter)
}

// track records since when a session's cleanup is forced, and since when no node fits its
// Pod, and tracks the drain of its member, or ends that.
func (g gatherer) track(in *lifecycle.Input) {
	s := in.Session
	at := s.Status.Placement
	switch {
	case !s.DeletionTimestamp.IsZero():
		if status.ForceCleanup(s) != "" {
			in.Known.ForcedSince = g.memory.ForcedSince(s.UID, in.Now)
		}
		return
	case at == nil:
		return
	case lifecycle.WithoutNode(s) == "":
		g.memory.Settled(s)
	case in.Members[at.ClusterUID].Health == health.Ready:
		in.Known.NodeWait = ptr.To(g.nodeWait(in))
	}
	there := in.Members[at.ClusterUID]
	d := there.Drain
	switch {
	case d == nil:
		g.drains.End(at.ClusterUID)
		return
	case there.Health != health.Ready || g.drains.Limit(at.ClusterUID, d.MaxUnavailable):
		return
	}
	g.drains.Begin(at.ClusterUID, d.MaxUnavailable, d.StartTime, g.Cached.All())
}
