package secret

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
	"github.com/vdi-fleet/vdi-fleet/hub/trim"
)

// +kubebuilder:rbac:groups="",namespace=vdi-system,resources=secrets,verbs=get;list;watch
// +kubebuilder:rbac:groups="",roleName=vdi-hub-sessions,resources=secrets,verbs=get;list;watch;create;update;delete

// Manager manages the access secrets of sessions, and resolves the Secrets that are sent
// with their assignments.
type Manager struct {
	// Client of the hub, which reads from its cache.
	Client client.Client
	// Live reads from the hub's API server.
	Live client.Reader
	// Namespace of the Secrets to distribute.
	Namespace string

	// written are access secrets as this process last wrote them, by their key, until the
	// cache shows them: decided from an older view they would be written again.
	written sync.Map
}

// ErrNotKept means that a session's access secret is not yet as its run needs it.
var ErrNotKept = errors.New("the access secret is not made yet")

// Keep creates the access secret of a placed session, renews its password for a new run,
// or deletes it if the template has none.
func (m *Manager) Keep(ctx context.Context, s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) error {
	secret, err := m.current(ctx, s)
	wanted := AccessName(s, t) != ""
	switch {
	case err != nil:
		return err
	case secret == nil && wanted:
		return m.createAccess(ctx, s, t)
	case wanted:
		return m.keepAccess(ctx, s, t, secret)
	case secret != nil && ownedBy(secret, s):
		return client.IgnoreNotFound(m.Client.Delete(ctx, secret, client.Preconditions{UID: &secret.UID}))
	}
	return nil
}

// For resolves the Secrets that are sent with a session's assignment. It writes nothing,
// and returns ErrNotKept until Keep has done its part.
func (m *Manager) For(ctx context.Context, s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) (Set, error) {
	var out Set
	name := v1alpha1.AssignmentName(s.Name, s.UID)
	if AccessName(s, t) != "" {
		access, err := m.current(ctx, s)
		if err != nil {
			return out, err
		}
		if access == nil {
			return out, ErrNotKept
		}
		desired, err := desiredAccess(s, t, access)
		if err != nil {
			return out, err
		}
		if access != desired {
			return out, ErrNotKept
		}
		data, _ := accessData(access)
		payload := payloadOf(access, v1alpha1.AccessSecretName(name), data)
		out.Access = &payload
	}
	for _, named := range NamedBy(t) {
		secret := &corev1.Secret{}
		err := m.Client.Get(ctx, types.NamespacedName{Namespace: m.Namespace, Name: named}, secret)
		if apierrors.IsNotFound(err) || err == nil && secret.Labels[v1alpha1.LabelSecret] != v1alpha1.SecretDistribute {
			continue
		}
		if err != nil {
			return out, fmt.Errorf("reading secret %s of the template: %w", named, err)
		}
		if size := max(sizeOf(secret.Data), trim.Omitted(secret)); size > maxSize {
			return out, &NotAssignableError{Reason: v1alpha1.ReasonTemplateInvalid, Message: fmt.Sprintf(
				"secret %s/%s that the template names is too large to travel (%d bytes, at most %d): make it smaller, or take the label %s off it and keep it in the member",
				secret.Namespace, named, size, maxSize, v1alpha1.LabelSecret)}
		}
		if out.Distributed == nil {
			out.Distributed = map[string]v1alpha1.SecretPayload{}
		}
		out.Distributed[named] = payloadOf(secret, v1alpha1.SentSecretName(name, named), secret.Data)
	}
	return out, nil
}

// current returns the session's access secret as this process last wrote it or as the
// cache shows it, whichever is newer, or nil.
func (m *Manager) current(ctx context.Context, s *v1alpha1.VDISession) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	key := types.NamespacedName{Namespace: s.Namespace, Name: v1alpha1.AssignmentName(s.Name, s.UID)}
	err := m.Client.Get(ctx, key, secret)
	if last, ok := m.written.Load(key); ok {
		if apierrors.IsNotFound(err) || err == nil && older(secret, last.(*corev1.Secret)) {
			return last.(*corev1.Secret).DeepCopy(), nil
		}
		if err == nil {
			// The cache may have shown it before the API server's response was recorded.
			m.written.CompareAndDelete(key, last)
		}
	}
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the access secret: %w", err)
	}
	return secret, nil
}

// createAccess creates the access secret. One that exists although the cache does not show
// it was just created, or lost its label.
func (m *Manager) createAccess(ctx context.Context, s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) error {
	secret := newAccess(s, t, status.RunOf(s.Status.Placement))
	err := m.Client.Create(ctx, secret)
	if err == nil {
		m.written.Store(client.ObjectKeyFromObject(secret), secret)
		return nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("making the access secret: %w", err)
	}
	there := &corev1.Secret{}
	if err := m.Live.Get(ctx, client.ObjectKeyFromObject(secret), there); err != nil {
		return fmt.Errorf("reading the access secret: %w", err)
	}
	if err := m.keepAccess(ctx, s, t, there); err != nil {
		return err
	}
	// Unless it was written just now, it is as it must be, and the cache will show it.
	m.written.LoadOrStore(client.ObjectKeyFromObject(there), there)
	return nil
}

// keepAccess updates a Secret to the desired state of the session's access secret.
func (m *Manager) keepAccess(ctx context.Context, s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec, secret *corev1.Secret) error {
	desired, err := desiredAccess(s, t, secret)
	if err != nil || secret == desired {
		return err
	}
	if err := m.Client.Update(ctx, desired); err != nil {
		if apierrors.IsNotFound(err) {
			return apierrors.NewConflict(corev1.Resource("secrets"), secret.Name, errors.New("it was deleted"))
		}
		return fmt.Errorf("renewing the access secret: %w", err)
	}
	m.written.Store(client.ObjectKeyFromObject(desired), desired)
	return nil
}

// desiredAccess returns a Secret in its desired state as the session's access secret: the
// Secret itself, or a changed copy. It is never changed back to an earlier run: then the
// session's view is stale.
func desiredAccess(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec, secret *corev1.Secret) (*corev1.Secret, error) {
	if !ownedBy(secret, s) {
		return nil, &NotAssignableError{Reason: v1alpha1.ReasonConflict, Message: fmt.Sprintf(
			"secret %s has the name of the session's access secret and belongs to another owner: delete it, or create the session under another name", secret.Name)}
	}
	want := status.RunOf(s.Status.Placement)
	has, known := status.ParseRun(secret.Annotations[v1alpha1.AnnotationRun])
	if known && want.Before(has) {
		return nil, apierrors.NewConflict(corev1.Resource("secrets"), secret.Name, errors.New("the session was seen as it was before"))
	}
	_, usable := accessData(secret)
	renew := !usable || !known || has != want && !status.Continues(s, has)
	if !renew && hasMetadata(secret, want) {
		return secret, nil
	}
	out := secret.DeepCopy()
	setMetadata(out, want)
	if renew {
		renewPassword(out, t)
	}
	return out, nil
}

// Shown records that the cache has shown a change of an access secret, deletion included. It
// reports whether that was this process's own last write.
func (m *Manager) Shown(secret *corev1.Secret) bool {
	last, ok := m.written.LoadAndDelete(client.ObjectKeyFromObject(secret))
	return ok && last.(*corev1.Secret).ResourceVersion == secret.ResourceVersion
}

// older reports whether the cached Secret predates the written one.
func older(cached, written *corev1.Secret) bool {
	order, err := resourceversion.CompareResourceVersion(cached.ResourceVersion, written.ResourceVersion)
	return err == nil && order < 0
}
