package assignment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/denied"
)

// +kubebuilder:rbac:groups="",roleName=vdi-agent-sessions,resources=secrets,verbs=get;list;watch;create;update;delete

// secretWriter stores and deletes the Secrets that came with assignments.
type secretWriter struct{ *Options }

// store stores the Secrets that came with an assignment, which owns them, and keeps those
// that came without data. If some can't be stored now, the assignment is not refused: its
// status names them, and the hub sends them again.
func (s secretWriter) store(ctx context.Context, object *v1alpha1.SessionAssignment, payload []v1alpha1.SecretPayload) error {
	named := namedSecrets(object)
	missing := map[string]string{}
	for i := range payload {
		p := &payload[i]
		if named[p.Name] != p.Version {
			continue
		}
		err := s.storeOne(ctx, secretOf(object, p))
		if in := (*obstacle)(nil); errors.As(err, &in) {
			missing[p.Name] = in.why
		} else if err != nil {
			return err
		}
	}
	if len(missing) > 0 {
		log.FromContext(ctx).Info("Secrets of a session can't be stored, will retry",
			"namespace", object.Namespace, "assignment", object.Name, "why", missing)
	}
	return nil
}

// namedSecrets returns the versions of an assignment's Secrets, by name.
func namedSecrets(a *v1alpha1.SessionAssignment) map[string]string {
	versions := make(map[string]string, len(a.Spec.Secrets))
	for _, reference := range a.Spec.Secrets {
		versions[reference.Name] = reference.Version
	}
	return versions
}

// secretOf renders a Secret that came with an assignment.
func secretOf(a *v1alpha1.SessionAssignment, p *v1alpha1.SecretPayload) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: a.Namespace, Name: p.Name,
			Labels: render.Selector(a),
			Annotations: map[string]string{
				v1alpha1.AnnotationSession:       a.Spec.Session.Namespace + "/" + a.Spec.Session.Name,
				v1alpha1.AnnotationSecretVersion: p.Version,
				v1alpha1.AnnotationSecretHash:    v1alpha1.SecretDataHash(p.Data),
			},
			OwnerReferences: []metav1.OwnerReference{render.Owner(a)},
		},
		// Opaque is what the API server would store.
		Type: cmp.Or(p.Type, corev1.SecretTypeOpaque), Data: p.Data,
	}
}

func (s secretWriter) storeOne(ctx context.Context, want *corev1.Secret) error {
	have := &corev1.Secret{}
	err := s.Client.Get(ctx, client.ObjectKeyFromObject(want), have)
	if apierrors.IsNotFound(err) {
		err = s.write(ctx, "create", want)
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		// The cache has only Secrets of the agent, after a delay.
		err = s.Live.Get(ctx, client.ObjectKeyFromObject(want), have)
	}
	if err != nil {
		return secretError("reading", want, err)
	}
	return s.revise(ctx, have, want)
}

// revise makes an existing Secret equal to the one that came, if the assignment owns it.
func (s secretWriter) revise(ctx context.Context, have, want *corev1.Secret) error {
	switch ownershipOf(have, want) {
	case ofOther:
		return &obstacle{"a Secret of that name exists that does not belong to this session: delete or rename it"}
	case ofPredecessor:
		return s.replace(ctx, have, want)
	}
	switch {
	case have.DeletionTimestamp != nil:
		return &obstacle{"it is being deleted, and a finalizer keeps it"}
	case asSent(have, want):
		return nil
	case have.Type != want.Type, ptr.Deref(have.Immutable, false):
		return s.replace(ctx, have, want)
	}
	revised := have.DeepCopy()
	revised.Data, revised.StringData = want.Data, nil
	revised.OwnerReferences = want.OwnerReferences
	revised.Labels = labels.Merge(have.Labels, want.Labels)
	revised.Annotations = labels.Merge(have.Annotations, want.Annotations)
	return s.write(ctx, "update", revised)
}

// replace deletes the very Secret that was read, and creates it again.
func (s secretWriter) replace(ctx context.Context, have, want *corev1.Secret) error {
	if err := s.delete(ctx, have); err != nil {
		return err
	}
	err := s.write(ctx, "create", want)
	if apierrors.IsAlreadyExists(err) {
		return &obstacle{"the previous one is being deleted, and a finalizer keeps it"}
	}
	return err
}

// asSent reports whether a Secret is as it came, without drift.
func asSent(have, want *corev1.Secret) bool {
	return have.Type == want.Type && metav1.GetControllerOf(have) != nil &&
		maps.Equal(labels.Merge(have.Labels, want.Labels), have.Labels) &&
		maps.Equal(labels.Merge(have.Annotations, want.Annotations), have.Annotations) &&
		v1alpha1.SecretDataHash(have.Data) == want.Annotations[v1alpha1.AnnotationSecretHash]
}

// ownership classifies an existing Secret by its owner.
type ownership int

const (
	ours ownership = iota
	// ofPredecessor is a Secret of an earlier assignment of that name, which the garbage
	// collector has not deleted yet.
	ofPredecessor
	ofOther
)

func ownershipOf(have, want *corev1.Secret) ownership {
	marked := maps.Equal(labels.Merge(have.Labels, want.Labels), have.Labels)
	owner, us := metav1.GetControllerOf(have), &want.OwnerReferences[0]
	switch {
	case owner != nil && owner.UID == us.UID, owner == nil && marked:
		return ours
	case owner != nil && owner.Kind == us.Kind && owner.APIVersion == us.APIVersion && owner.Name == us.Name && marked:
		return ofPredecessor
	}
	return ofOther
}

// drop deletes the Secrets of an assignment that it no longer names.
func (s secretWriter) drop(ctx context.Context, a *v1alpha1.SessionAssignment) error {
	unnamed, err := s.unnamed(ctx, a)
	for i := 0; i < len(unnamed) && err == nil; i++ {
		err = s.delete(ctx, unnamed[i])
	}
	return err
}

// unnamed returns the Secrets of an assignment that it does not name.
func (s secretWriter) unnamed(ctx context.Context, a *v1alpha1.SessionAssignment) ([]*corev1.Secret, error) {
	named := namedSecrets(a)
	list := &corev1.SecretList{}
	err := s.Client.List(ctx, list, client.InNamespace(a.Namespace), client.MatchingFields{render.AssignmentIndex: a.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing Secrets: %w", err)
	}
	var unnamed []*corev1.Secret
	for i := range list.Items {
		secret := &list.Items[i]
		owner := metav1.GetControllerOf(secret)
		if _, keep := named[secret.Name]; !keep && owner != nil && owner.UID == a.UID && secret.DeletionTimestamp == nil {
			unnamed = append(unnamed, secret)
		}
	}
	return unnamed, nil
}

func (s secretWriter) delete(ctx context.Context, secret *corev1.Secret) error {
	metricSecretWrites.WithLabelValues("delete").Inc()
	err := s.Client.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secret.Namespace, Name: secret.Name}},
		client.Preconditions{UID: ptr.To(secret.UID)})
	if client.IgnoreNotFound(err) != nil {
		return secretError("deleting", secret, err)
	}
	return nil
}

func (s secretWriter) write(ctx context.Context, verb string, secret *corev1.Secret) error {
	metricSecretWrites.WithLabelValues(verb).Inc()
	write := func() error { return s.Client.Create(ctx, secret) }
	if verb == "update" {
		write = func() error { return s.Client.Update(ctx, secret) }
	}
	err := write()
	switch {
	case err == nil:
		return nil
	case denied.Is(err):
		return &obstacle{"the API server refuses it: " + string(apierrors.ReasonForError(err))}
	}
	return secretError(verb[:len(verb)-1]+"ing", secret, err)
}

// obstacle is why a Secret can't be stored now, without its content.
type obstacle struct{ why string }

func (o *obstacle) Error() string { return o.why }

// secretFailure hides the text of an API server's error, which may quote the content of
// the Secret, and keeps its reason.
type secretFailure struct {
	text  string
	cause error
}

func secretError(action string, secret *corev1.Secret, err error) error {
	reason := cmp.Or(string(apierrors.ReasonForError(err)), "the API server did not answer")
	return &secretFailure{fmt.Sprintf("%s Secret %s: %s", action, client.ObjectKeyFromObject(secret), reason), err}
}

func (e *secretFailure) Error() string { return e.text }
func (e *secretFailure) Unwrap() error { return e.cause }

// sweepRetry is the delay before failed deletions are retried.
const sweepRetry = 5 * time.Second

// sweep deletes the Secrets that assignments no longer name, in case an earlier process
// ended between the write of an assignment and the deletion: the order is stored, so the
// hub does not repeat it.
func (s secretWriter) sweep(ctx context.Context) {
	logged := false
	_ = wait.PollUntilContextCancel(ctx, sweepRetry, true, func(ctx context.Context) (done bool, err error) {
		failed := s.sweepOnce(ctx)
		if failed != nil && !logged && ctx.Err() == nil {
			logged = true
			log.FromContext(ctx).Error(failed, "Deleting the Secrets that no session names any more, will retry")
		}
		return failed == nil, nil
	})
}

// sweepOnce continues after a failure, and returns the first error.
func (s secretWriter) sweepOnce(ctx context.Context) (first error) {
	var all v1alpha1.SessionAssignmentList
	if err := s.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	for i := range all.Items {
		if a := &all.Items[i]; a.DeletionTimestamp.IsZero() {
			if err := s.sweepOf(ctx, a); err != nil && first == nil {
				first = err
			}
		}
	}
	return first
}

// sweepOf deletes the Secrets that an assignment does not name. It reads the assignment
// from the API server after its Secrets, since an order that is carried out meanwhile
// writes the assignment first.
func (s secretWriter) sweepOf(ctx context.Context, a *v1alpha1.SessionAssignment) error {
	unnamed, err := s.unnamed(ctx, a)
	if err != nil || len(unnamed) == 0 {
		return err
	}
	now := &v1alpha1.SessionAssignment{}
	if err := s.Live.Get(ctx, client.ObjectKeyFromObject(a), now); err != nil || now.UID != a.UID {
		return client.IgnoreNotFound(err)
	}
	named := namedSecrets(now)
	for _, secret := range unnamed {
		if _, keep := named[secret.Name]; keep {
			continue
		}
		if err := s.delete(ctx, secret); err != nil {
			return err
		}
	}
	return nil
}
