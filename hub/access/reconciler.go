package access

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/backoff"
	"github.com/vdi-fleet/vdi-fleet/hub/session/index"
	"github.com/vdi-fleet/vdi-fleet/hub/trim"
)

// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,roleName=vdi-hub-user-roles,resources=roles;rolebindings,verbs=list;watch;create;update;delete

// Defaults of the Reconciler's fields. A user who returns within a week costs one update.
const (
	DefaultInterval  = time.Second
	DefaultRetention = 7 * 24 * time.Hour
)

const (
	// conflictWait is the delay after a conflict with another writer or a lagging cache.
	conflictWait = time.Second
	// collisionWait is the delay after a name was found in use by an object without our
	// label. No watch reports its deletion.
	collisionWait = time.Minute
)

// Reconciler keeps the Role and RoleBinding of each user with sessions in a
// namespace. A request names a Role: one user in one namespace.
type Reconciler struct {
	// Client reads Roles and RoleBindings from the cache, Live from the
	// API server.
	Client client.Client
	Live   client.Reader
	// Sessions in the hub's cache.
	Sessions index.Sessions
	// Recorder of events on sessions.
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	// Interval is the least time between two updates of one Role; zero:
	// DefaultInterval.
	Interval time.Duration
	// Retention is how long the Role and RoleBinding of a user without sessions are
	// kept, counted from when this process first finds them unused; zero:
	// DefaultRetention.
	Retention time.Duration

	// pace limits the writes of one object, so that a burst of sessions of one user is
	// written together, and the cache shows a write before the next.
	pace backoff.Pace[written]
	// unused is since when the user of each Role has no sessions.
	unused sync.Map
}

// written is a Role or RoleBinding.
type written struct {
	kind string
	types.NamespacedName
}

// Reconcile makes one user's Role and RoleBinding match the user's sessions.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	result, err := r.update(ctx, req)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: conflictWait}, nil
	}
	return result, err
}

func (r *Reconciler) update(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var sessions []*v1alpha1.VDISession
	for s := range r.Sessions.By(indexRole, trim.Bucket(req.Name)) {
		if s.Namespace == req.Namespace && Name(s.Spec.User) == req.Name {
			sessions = append(sessions, s)
		}
	}
	role, binding := Desired(sessions)
	if role == nil {
		return r.retire(ctx, req)
	}
	r.unused.Delete(req.NamespacedName)
	// The Role first: admission reads it when a RoleBinding refers to it.
	for _, want := range []client.Object{role, binding} {
		result, err := r.keep(ctx, req, want)
		switch {
		case apierrors.IsAlreadyExists(err):
			return r.collided(ctx, want, slices.MinFunc(sessions, newestFirst))
		case err != nil || !result.IsZero():
			return result, err
		}
	}
	return ctrl.Result{}, nil
}

// keep creates or updates one object. It returns when to retry if an earlier write is too
// recent.
func (r *Reconciler) keep(ctx context.Context, req ctrl.Request, want client.Object) (ctrl.Result, error) {
	have, kind := want.DeepCopyObject().(client.Object), kindOf(want)
	err := r.Client.Get(ctx, req.NamespacedName, have)
	missing := apierrors.IsNotFound(err)
	switch {
	case missing:
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("reading the %s of a user: %w", kind, err)
	case sufficient(have, want):
		return ctrl.Result{}, nil
	case otherRole(have, want):
		// It is immutable: the watch on its deletion enqueues the user again.
		return ctrl.Result{}, r.delete(ctx, have)
	}
	object := written{kind, req.NamespacedName}
	if wait := r.pace.Wait(object, r.Clock.Now()); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	if missing {
		err = r.Client.Create(ctx, want)
	} else {
		want.SetUID(have.GetUID())
		want.SetResourceVersion(have.GetResourceVersion())
		err = r.Client.Update(ctx, want)
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("writing the %s of a user: %w", kind, err)
	}
	r.pace.Took(object, r.Clock.Now(), cmp.Or(r.Interval, DefaultInterval))
	return ctrl.Result{}, nil
}

// retire deletes, after the retention, the objects of a user without sessions in the
// namespace.
func (r *Reconciler) retire(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	for _, have := range []client.Object{&rbacv1.RoleBinding{}, &rbacv1.Role{}} {
		err := r.Client.Get(ctx, req.NamespacedName, have)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return ctrl.Result{}, fmt.Errorf("reading the %s of a user: %w", kindOf(have), err)
		}
		now := r.Clock.Now()
		if wait := max(r.kept(req.NamespacedName, now), r.pace.Wait(written{kindOf(have), req.NamespacedName}, now)); wait > 0 {
			return ctrl.Result{RequeueAfter: wait}, nil
		}
		if err := r.delete(ctx, have); err != nil {
			return ctrl.Result{}, err
		}
	}
	r.unused.Delete(req.NamespacedName)
	return ctrl.Result{}, nil
}

// delete removes an object in its cached version, so that one that has lost our label since
// stays.
func (r *Reconciler) delete(ctx context.Context, have client.Object) error {
	uid, version := have.GetUID(), have.GetResourceVersion()
	err := r.Client.Delete(ctx, have, client.Preconditions{UID: &uid, ResourceVersion: &version})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting the %s of a user: %w", kindOf(have), err)
	}
	return nil
}

// collided handles a name that exists and is not in the cache of our objects: the cache
// lags, or the object is not ours.
func (r *Reconciler) collided(ctx context.Context, want client.Object, s *v1alpha1.VDISession) (ctrl.Result, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind(kindOf(want) + "List"))
	err := r.Live.List(ctx, list, client.InNamespace(want.GetNamespace()), client.MatchingFields{"metadata.name": want.GetName()}, ours)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("reading the %s of a user: %w", kindOf(want), err)
	}
	if len(list.Items) > 0 {
		return ctrl.Result{RequeueAfter: conflictWait}, nil
	}
	log.FromContext(ctx).Info("A user can't read the passwords of the user's sessions: an object that the hub did not create has the required name",
		"kind", kindOf(want), "namespace", want.GetNamespace(), "name", want.GetName(), "user", s.Spec.User)
	r.Recorder.Eventf(s, nil, "Warning", v1alpha1.EventRoleConflict, "Grant",
		"%s %s was not created by the hub, and user %s can't read the session's password by it: delete or rename it, and the hub creates its own",
		kindOf(want), want.GetName(), s.Spec.User)
	return ctrl.Result{RequeueAfter: collisionWait}, nil
}

// kept returns how long an unused Role must still be kept. The first call for one begins
// its retention.
func (r *Reconciler) kept(role types.NamespacedName, now time.Time) time.Duration {
	since, _ := r.unused.LoadOrStore(role, now)
	return since.(time.Time).Add(cmp.Or(r.Retention, DefaultRetention)).Sub(now)
}

func kindOf(o client.Object) string {
	if _, ok := o.(*rbacv1.RoleBinding); ok {
		return "RoleBinding"
	}
	return "Role"
}

// sufficient reports whether a stored object grants the desired access. Labels and
// annotations of other clients, and the names of Secrets of ended sessions, stay until the
// next update, so that a session costs one update of its user's Role: names are derived from
// UIDs, so none is used twice.
func sufficient(have, want client.Object) bool {
	if !labels.SelectorFromSet(want.GetLabels()).Matches(labels.Set(have.GetLabels())) {
		return false
	}
	switch want := want.(type) {
	case *rbacv1.Role:
		return grants(have.(*rbacv1.Role).Rules, want.Rules)
	case *rbacv1.RoleBinding:
		return equality.Semantic.DeepEqual(have.(*rbacv1.RoleBinding).Subjects, want.Subjects) && !otherRole(have, want)
	}
	return false
}

// grants reports whether the rules of a Role are the desired ones, for all of the desired
// Secrets and possibly more.
func grants(have, want []rbacv1.PolicyRule) bool {
	if len(have) != 1 || !sets.New(have[0].ResourceNames...).HasAll(want[0].ResourceNames...) {
		return false
	}
	rule := have[0]
	rule.ResourceNames = want[0].ResourceNames
	return equality.Semantic.DeepEqual(rule, want[0])
}

// otherRole reports whether a stored RoleBinding refers to another Role, which is immutable.
func otherRole(have, want client.Object) bool {
	binding, ok := want.(*rbacv1.RoleBinding)
	return ok && have.(*rbacv1.RoleBinding).RoleRef != binding.RoleRef
}
