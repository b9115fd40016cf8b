package session

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// +kubebuilder:rbac:groups="",namespace=vdi-system,resources=secrets,verbs=get;list;watch
// +kubebuilder:rbac:groups="",roleName=vdi-hub-sessions,resources=secrets,verbs=get;list;watch;create;update;delete

// largestSecret that travels: 16 of them fit a message of the link.
const largestSecret = 128 << 10

// unfit is why no assignment can be made of a session, which somebody has to
// change. It is shown on the session.
type unfit struct{ reason, message string }

func (u *unfit) Error() string { return u.message }

// secretsOf resolves the Secrets that travel with a session's assignment, and
// makes its access secret where that is missing or of an earlier run.
func (r *MemberReconciler) secretsOf(ctx context.Context, s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) (Secrets, error) {
	var out Secrets
	if !r.Sessions.serves(s.Namespace) {
		return out, &unfit{v1alpha1.ReasonNamespaceNotAllowed, r.Sessions.notServed(s.Namespace)}
	}
	name := v1alpha1.AssignmentName(s.Name, s.UID)
	access, err := r.accessSecret(ctx, s, accessSecretName(s, t) != "")
	if err != nil {
		return out, err
	}
	if access != nil {
		data, _ := accessData(access)
		payload := payloadOf(access, v1alpha1.AccessSecretName(name), data)
		out.Access = &payload
	}
	for _, named := range namedSecrets(t) {
		secret := &corev1.Secret{}
		err := r.Client.Get(ctx, types.NamespacedName{Namespace: r.Revisions.Namespace, Name: named}, secret)
		if apierrors.IsNotFound(err) || err == nil && secret.Labels[v1alpha1.LabelSecret] != v1alpha1.SecretDistribute {
			continue
		}
		if err != nil {
			return out, fmt.Errorf("reading secret %s of the template: %w", named, err)
		}
		if size := max(sizeOf(secret.Data), leftOut(secret)); size > largestSecret {
			return out, &unfit{v1alpha1.ReasonTemplateInvalid, fmt.Sprintf(
				"secret %s/%s that the template names is too large to travel (%d bytes, at most %d): make it smaller, or take the label %s off it and keep it in the member",
				secret.Namespace, named, size, largestSecret, v1alpha1.LabelSecret)}
		}
		if out.Distributed == nil {
			out.Distributed = map[string]v1alpha1.SecretPayload{}
		}
		out.Distributed[named] = payloadOf(secret, v1alpha1.SentSecretName(name, named), secret.Data)
	}
	return out, nil
}

// namedSecrets are the Secrets that a template names, each once.
func namedSecrets(t *v1alpha1.TemplateSpec) []string {
	var out []string
	seen := map[string]bool{}
	add := func(name string) {
		if !seen[name] {
			seen[name] = true
			out = append(out, name)
		}
	}
	for _, p := range t.ImagePullSecrets {
		add(p.Name)
	}
	for i := range t.Secrets {
		add(t.Secrets[i].Name)
	}
	return out
}

func sizeOf(data map[string][]byte) int {
	size := 0
	for key, value := range data {
		size += len(key) + len(value)
	}
	return size
}

// accessSecret is the session's access secret as it is to be, made, rotated or
// repaired where need be; nil where none is wanted. What it holds is what
// travels, so a user may set a password of his own: it lasts for the run.
func (r *MemberReconciler) accessSecret(ctx context.Context, s *v1alpha1.VDISession, wanted bool) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	key := types.NamespacedName{Namespace: s.Namespace, Name: v1alpha1.AssignmentName(s.Name, s.UID)}
	err := r.Client.Get(ctx, key, secret)
	if last := r.kept.get(key); last != nil && (apierrors.IsNotFound(err) || err == nil && olderThan(secret.ResourceVersion, last.ResourceVersion)) {
		secret, err = last, nil
	}
	switch {
	case apierrors.IsNotFound(err) && !wanted:
		return nil, nil
	case apierrors.IsNotFound(err):
		return r.makeAccessSecret(ctx, s)
	case err != nil:
		return nil, fmt.Errorf("reading the access secret: %w", err)
	case !wanted && ownedBy(secret, s):
		err := r.Client.Delete(ctx, secret, client.Preconditions{UID: &secret.UID})
		return nil, client.IgnoreNotFound(err)
	case !wanted:
		return nil, nil
	}
	return r.keepAccessSecret(ctx, s, secret)
}

// makeAccessSecret makes the access secret. Where one is there that the cache
// does not show, somebody has made it, or taken our label off it.
func (r *MemberReconciler) makeAccessSecret(ctx context.Context, s *v1alpha1.VDISession) (*corev1.Secret, error) {
	secret := newAccessSecret(s, runOf(s.Status.Placement))
	err := r.Client.Create(ctx, secret)
	if err == nil {
		r.kept.put(secret)
		return secret, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("making the access secret: %w", err)
	}
	there := &corev1.Secret{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(secret), there); err != nil {
		return nil, fmt.Errorf("reading the access secret: %w", err)
	}
	return r.keepAccessSecret(ctx, s, there)
}

// keepAccessSecret makes a Secret what the session's access secret must be. It
// is never made that of an earlier run: then the session is an old view.
func (r *MemberReconciler) keepAccessSecret(ctx context.Context, s *v1alpha1.VDISession, secret *corev1.Secret) (*corev1.Secret, error) {
	if !ownedBy(secret, s) {
		return nil, &unfit{v1alpha1.ReasonConflict, fmt.Sprintf(
			"secret %s has the name of the session's access secret and is somebody else's: delete it, or create the session under another name", secret.Name)}
	}
	want := runOf(s.Status.Placement)
	has, known := parseRun(secret.Annotations[v1alpha1.AnnotationRun])
	if known && want.before(has) {
		return nil, apierrors.NewConflict(corev1.Resource("secrets"), secret.Name, errors.New("the session was seen as it was before"))
	}
	before := secret.DeepCopy()
	dressAccessSecret(secret, want)
	if _, usable := accessData(secret); !usable || !known || has != want && !goesOn(s, has) {
		renewPassword(secret)
	}
	if equality.Semantic.DeepEqual(before, secret) {
		return secret, nil
	}
	if err := r.Client.Update(ctx, secret); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, apierrors.NewConflict(corev1.Resource("secrets"), secret.Name, errors.New("it was deleted"))
		}
		return nil, fmt.Errorf("renewing the access secret: %w", err)
	}
	r.kept.put(secret)
	return secret, nil
}

// keptSecrets are access secrets as this process wrote them last, until the
// cache tells of them: from an older view they would be written once more.
type keptSecrets struct {
	mu sync.Mutex
	by map[types.NamespacedName]*corev1.Secret
}

func (k *keptSecrets) put(secret *corev1.Secret) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.by == nil {
		k.by = map[types.NamespacedName]*corev1.Secret{}
	}
	k.by[client.ObjectKeyFromObject(secret)] = secret.DeepCopy()
}

// get returns a copy, or nil.
func (k *keptSecrets) get(key types.NamespacedName) *corev1.Secret {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.by[key].DeepCopy()
}

// forget a secret of which the cache tells, be it that it is gone.
func (k *keptSecrets) forget(key types.NamespacedName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.by, key)
}

// over is whether the member has ended the very placement that the session
// stands at: then there is nothing to assign, but an end to record.
func over(v *visit) bool {
	return v.reported != nil && ended(v.reported) && v.reported.Spec.Epoch >= v.session.Status.Placement.Epoch
}

// showUnfit says on the session why it can't be assigned, and looks again later:
// what has to change may be none of what the hub watches.
func (r *MemberReconciler) showUnfit(ctx context.Context, v *visit, why *unfit) (ctrl.Result, error) {
	after := v.session.DeepCopy()
	v1alpha1.SetCondition(&after.Status.Conditions, after.Generation, metav1.Condition{
		Type: v1alpha1.ConditionAssigned, Status: metav1.ConditionFalse, Reason: why.reason, Message: why.message,
	})
	status.Summarize(after, v.spec, r.Clock.Now())
	return ctrl.Result{RequeueAfter: DefaultLookAfter}, r.patch(ctx, v.session, after)
}
