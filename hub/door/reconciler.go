package door

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/backoff"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
	"github.com/vdi-fleet/vdi-fleet/proto/visit"
)

// Members sends doors their configuration.
type Members interface {
	SetDoor(*fleetv1.DoorConfig)
}

// Reconciler follows the Secret with the console's keys.
type Reconciler struct {
	// Client reads Secrets from the hub's cache.
	Client  client.Client
	Members Members
	// Namespace of the Secret, the hub's own.
	Namespace string
	// Console is the origin of the console; empty if there is none.
	Console string
}

// SetupWithManager adds the controller. Without a console the members have no use for a door.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	if r.Console == "" {
		r.Members.SetDoor(&fleetv1.DoorConfig{})
		return nil
	}
	keys := predicate.NewPredicateFuncs(func(o client.Object) bool {
		return o.GetNamespace() == r.Namespace && o.GetLabels()[v1alpha1.LabelSecret] == v1alpha1.SecretConsoleKeys
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("doors").
		For(&corev1.Secret{}, builder.WithPredicates(keys)).
		WithOptions(controller.Options{RateLimiter: backoff.Limiter[ctrl.Request]()}).
		Complete(r)
}

// Reconcile sends the members the keys of the Secret; none if it is gone, so that no pass opens anything until the
// console has made others.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	secret := &corev1.Secret{}
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: r.Namespace, Name: request.Name}, secret)
	keys := visit.Keys{}
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("reading the console's keys: %w", err)
	default:
		if keys, err = visit.ParseKeys(secret.Data[v1alpha1.ConsolePublicKeys]); err != nil {
			return ctrl.Result{}, fmt.Errorf("reading Secret %s/%s: %w", secret.Namespace, secret.Name, err)
		}
	}
	config := &fleetv1.DoorConfig{ConsoleOrigin: r.Console}
	for _, id := range slices.Sorted(maps.Keys(keys)) {
		config.Keys = append(config.Keys, &fleetv1.VisitKey{Id: id, PublicKey: keys[id]})
	}
	r.Members.SetDoor(config)
	return ctrl.Result{}, nil
}
