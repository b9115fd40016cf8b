package template

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/backoff"
	"github.com/vdi-fleet/vdi-fleet/hub/member"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// +kubebuilder:rbac:groups=vdi.kasm.io,resources=vditemplates,verbs=list;watch;patch
// +kubebuilder:rbac:groups=vdi.kasm.io,resources=vditemplates/finalizers,verbs=update
// +kubebuilder:rbac:groups=vdi.kasm.io,resources=vditemplates/status,verbs=patch
// +kubebuilder:rbac:groups=apps,namespace=vdi-system,resources=controllerrevisions,verbs=list;watch;create;delete

// Members is the part of the fleet's members that this package uses.
type Members interface {
	// SetTemplates sets which revisions agents evaluate, and which is each template's
	// current one.
	SetTemplates(ctx context.Context, set *fleetv1.TemplateSet, current map[string]string) error
	// CanRun counts the members that can run a revision, and all members.
	CanRun(template, revision string) (can, of int32)
	// Listen calls the listener when a member changes.
	Listen(func(member.Change))
}

// Reconciler sets which templates agents evaluate, shows on each template where it can run
// and how many sessions use it, keeps it while there are any, and prunes revisions that
// nothing refers to.
//
// All templates share one request: agents always get the whole set.
type Reconciler struct {
	Client  client.Client
	Members Members
	Clock   clock.PassiveClock
	// Namespace of the ControllerRevisions.
	Namespace string
	// InUse reports whether a session refers to a revision.
	InUse func(template, revision string) bool
	// Prepare succeeds once Placed counts all sessions.
	Prepare func(context.Context) error
	// Placed counts the sessions that are placed with a template, by revision.
	Placed func(template string) map[string]int32

	// unused is since when no reference to a revision was seen, by name. Templates share
	// one request, so only one goroutine uses it.
	unused map[string]time.Time
	// written spaces the status writes of each template, by name.
	written backoff.Pace[string]
}

// pruneAfter is how long a revision must be without references before it is deleted: a
// revision that was just stored is referred to only once a session's status names it, and
// the hub's cache shows that.
const pruneAfter = time.Minute

var allTemplates = reconcile.Request{NamespacedName: types.NamespacedName{Name: "all"}}

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	toAll := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{allTemplates}
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("vditemplate").
		Watches(&v1alpha1.VDITemplate{}, toAll).
		Watches(&appsv1.ControllerRevision{}, toAll).
		WatchesRawSource(source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			r.Members.Listen(func(c member.Change) {
				switch c.Kind {
				case member.MemberCapacity, member.MemberChanged, member.MemberStream, member.MemberSessions:
					q.AddAfter(allTemplates, backoff.StatusInterval)
				}
			})
			return nil
		})).
		WithOptions(controller.Options{RateLimiter: backoff.Limiter[reconcile.Request]()}).
		Complete(r)
}

// Reconcile brings every template up to date.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	if err := r.Prepare(ctx); err != nil {
		return ctrl.Result{}, err
	}
	templates := &v1alpha1.VDITemplateList{}
	if err := r.Client.List(ctx, templates); err != nil {
		return ctrl.Result{}, fmt.Errorf("listing templates: %w", err)
	}
	kept := &appsv1.ControllerRevisionList{}
	if err := r.Client.List(ctx, kept, client.InNamespace(r.Namespace), client.HasLabels{LabelTemplate}, client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, fmt.Errorf("listing template revisions: %w", err)
	}
	set, current, unreadable := templateSet(templates.Items, kept.Items)
	if err := r.Members.SetTemplates(ctx, set, current); err != nil {
		return ctrl.Result{}, err
	}
	again, err := r.prune(ctx, kept.Items, current)
	if err != nil {
		return ctrl.Result{}, err
	}
	interval := backoff.StatusIntervalOf(len(templates.Items))
	for i := range templates.Items {
		wait, err := r.show(ctx, &templates.Items[i], current, interval)
		if apierrors.IsConflict(err) {
			wait, err = backoff.ConflictDelay, nil
		}
		if err != nil {
			return ctrl.Result{}, err
		}
		again = backoff.Sooner(again, wait)
	}
	if unreadable != nil {
		return ctrl.Result{}, reconcile.TerminalError(unreadable)
	}
	return ctrl.Result{RequeueAfter: again}, nil
}

// show updates one template; wait is when to check again.
func (r *Reconciler) show(ctx context.Context, t *v1alpha1.VDITemplate, current map[string]string, interval time.Duration) (wait time.Duration, err error) {
	used := r.Placed(t.Name)
	if wait, err = r.status(ctx, t, current[t.Name], used, interval); err != nil {
		return 0, err
	}
	return wait, r.keep(ctx, t, total(used))
}

// prune deletes revisions that are not current and that no session has referred to for a
// while; again is when to check again.
func (r *Reconciler) prune(ctx context.Context, kept []appsv1.ControllerRevision, current map[string]string) (again time.Duration, err error) {
	now := r.Clock.Now()
	unused := map[string]time.Time{}
	for i := range kept {
		cr := &kept[i]
		template, revision := cr.Labels[LabelTemplate], cr.Labels[LabelRevision]
		if current[template] == revision {
			continue
		}
		if r.InUse(template, revision) {
			continue
		}
		since, known := r.unused[cr.Name]
		if !known {
			since = now
		}
		if wait := since.Add(pruneAfter).Sub(now); wait > 0 {
			unused[cr.Name], again = since, backoff.Sooner(again, wait)
			continue
		}
		if err := r.Client.Delete(ctx, cr, client.Preconditions{UID: &cr.UID}); client.IgnoreNotFound(err) != nil {
			return 0, fmt.Errorf("pruning template revision: %w", err)
		}
	}
	r.unused = unused
	return again, nil
}
