package keys

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/backoff"
	"github.com/vdi-fleet/vdi-fleet/proto/visit"
)

// SecretName is the name of the Secret with the keys, in the console's namespace.
const SecretName = "vdi-console-keys"

// entry is the entry of the Secret with the ring.
const entry = "ring.json"

// Keeper keeps the ring of a replica up to date with the Secret, and rotates it. Whichever replica is first
// stores the next key.
type Keeper struct {
	// Client reads Secrets from the cache.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	// Namespace of the Secret.
	Namespace string
	Clock     clock.PassiveClock

	ring atomic.Pointer[Ring]
}

// Cached restricts the cache of Secrets to the one with the keys.
func Cached(namespace string) cache.ByObject {
	return cache.ByObject{Namespaces: map[string]cache.Config{
		namespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", SecretName)},
	}}
}

// +kubebuilder:rbac:namespace=vdi-system,groups="",resources=secrets,verbs=create
// +kubebuilder:rbac:namespace=vdi-system,groups="",resources=secrets,resourceNames=vdi-console-keys,verbs=get;list;watch;update

// SetupWithManager adds the controller of the Secret, which runs in every replica.
func (k *Keeper) SetupWithManager(mgr manager.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("console-keys").
		For(&corev1.Secret{}).
		WithOptions(controller.Options{NeedLeaderElection: ptr.To(false), RateLimiter: backoff.Limiter[ctrl.Request]()}).
		Complete(k)
}

// Prepare reads the keys, or stores the first ones. No user can log in before.
func (k *Keeper) Prepare(ctx context.Context) error {
	_, err := k.update(ctx, k.Live)
	if isBehind(err) {
		_, err = k.update(ctx, k.Live)
	}
	return err
}

// isBehind reports whether another replica has stored keys since they were read.
func isBehind(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

// Reconcile adopts a change of the Secret, and rotates the ring when that is due.
func (k *Keeper) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	after, err := k.update(ctx, k.Client)
	if isBehind(err) {
		return ctrl.Result{RequeueAfter: backoff.ConflictDelay}, nil
	}
	return ctrl.Result{RequeueAfter: after}, err
}

// update adopts what is stored, and stores what the ring lacks. It returns when to do that next.
func (k *Keeper) update(ctx context.Context, from client.Reader) (time.Duration, error) {
	secret := &corev1.Secret{}
	err := from.Get(ctx, client.ObjectKey{Namespace: k.Namespace, Name: SecretName}, secret)
	var stored Ring
	switch {
	case apierrors.IsNotFound(err):
		secret = nil
	case err != nil:
		return 0, fmt.Errorf("reading the keys of the console: %w", err)
	default:
		if stored, err = parse(secret.Data[entry]); err != nil {
			return 0, fmt.Errorf("no valid %s in Secret %s/%s: delete it, and everybody logs in again: %w", entry, k.Namespace, SecretName, err)
		}
		k.ring.Store(&stored)
	}
	ring, changed := stored.rotated(k.Clock.Now(), newKey)
	if changed {
		if err := k.store(ctx, secret, ring); err != nil {
			return 0, fmt.Errorf("storing the keys of the console: %w", err)
		}
		k.ring.Store(&ring)
	}
	return ring.due(k.Clock.Now()), nil
}

// store writes a ring into the Secret that was read, or a new one.
func (k *Keeper) store(ctx context.Context, secret *corev1.Secret, ring Ring) error {
	value, err := json.Marshal(ring)
	if err != nil {
		return err
	}
	public, err := json.Marshal(ring.public())
	if err != nil {
		return err
	}
	made := secret == nil
	if made {
		secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: SecretName}}
	} else {
		secret = secret.DeepCopy()
	}
	secret.Labels = labels.Merge(secret.Labels, labels.Set{
		v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelSecret: v1alpha1.SecretConsoleKeys,
	})
	secret.Data = map[string][]byte{entry: value, v1alpha1.ConsolePublicKeys: public}
	if made {
		return k.Client.Create(ctx, secret)
	}
	return k.Client.Update(ctx, secret) // with the resourceVersion that was read
}

func newKey(notBefore time.Time) Key {
	key := make([]byte, size)
	_, _ = rand.Read(key) // never fails
	return Key{ID: rand.Text(), Key: key, NotBefore: notBefore}
}

// errNoKeys is the error of a replica that has not read the keys yet.
var errNoKeys = errors.New("the keys of the console have not been read yet")

// Current returns the key to encrypt with, and its ID.
func (k *Keeper) Current() (id string, key []byte, err error) {
	ring := k.ring.Load()
	if ring == nil {
		return "", nil, errNoKeys
	}
	current := ring.Login.current(k.Clock.Now())
	return current.ID, current.Key, nil
}

// Sign returns a signed pass.
func (k *Keeper) Sign(p visit.Pass) (string, error) {
	ring := k.ring.Load()
	if ring == nil || len(ring.Visit) == 0 {
		return "", errNoKeys
	}
	current := ring.Visit.current(k.Clock.Now())
	return visit.Sign(p, current.ID, ed25519.NewKeyFromSeed(current.Key))
}

// Key returns the key of an ID, false if it is not accepted.
func (k *Keeper) Key(id string) ([]byte, bool) {
	ring := k.ring.Load()
	if ring == nil {
		return nil, false
	}
	for _, key := range ring.Login {
		if key.ID == id {
			return key.Key, true
		}
	}
	return nil, false
}
