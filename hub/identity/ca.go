package identity

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/identity/pki"
)

// Reasons of the events on the CA's Secret.
const (
	// EventRotationBegan: a rotation of the CA began; agents are given both CAs.
	EventRotationBegan = "CARotationBegan"
	// EventRotationSigning: the new CA issues; agents are given its certificates.
	EventRotationSigning = "CARotationSigning"
	// EventRotationFinished: the old CA is not trusted any more.
	EventRotationFinished = "CARotationFinished"
)

// named in a log line, at most: a fleet has many members.
const named = 10

// lookAtCA reads the Secret again, renews the hub's certificate, and leads a
// rotation on by the step that is due.
func (a *Authority) lookAtCA(ctx context.Context) error {
	secret, err := a.readSecret(ctx)
	if apierrors.IsNotFound(err) {
		// The CA is only lost once the process ends that still has it.
		log.FromContext(ctx).Info("The Secret of the hub's CA was deleted: putting it back")
		secret, err = a.createSecret(ctx, a.current.Load().state)
	}
	if err != nil {
		return err
	}
	if secret.ResourceVersion != a.secret {
		if err := a.adoptSecret(secret); err != nil {
			return err
		}
	} else if s := a.current.Load(); pki.RenewalDue(s.serving.Leaf, a.options.Now()) {
		if err := a.adopt(s.state); err != nil {
			return err
		}
	}
	return a.rotateCA(ctx, secret)
}

func (a *Authority) rotateCA(ctx context.Context, secret *corev1.Secret) error {
	state, now := a.current.Load().state, a.options.Now()
	var members []pki.Member
	if state.Stage != pki.StageStable {
		var err error
		if members, err = a.allMembers(ctx); err != nil {
			return err
		}
	}
	_, requested := secret.Annotations[v1alpha1.AnnotationRotateCA]
	step, waiting := state.StepDue(requested, members, a.options.Lifetime, now)
	var reason, note string
	switch step {
	case pki.StepNone:
		a.sayWaiting(ctx, state.Stage, waiting)
		return nil
	case pki.StepBegin:
		next, err := newCA(now)
		if err != nil {
			return fmt.Errorf("making the next CA: %w", err)
		}
		state = state.Begin(next, now)
		reason, note = EventRotationBegan, "agents are given both CAs; the next one is "+next.Hash()
	case pki.StepSign:
		state = state.Sign(now)
		reason, note = EventRotationSigning, "the new CA issues from now on; agents rotate their certificates"
	case pki.StepFinish:
		state = state.Finish(now)
		reason, note = EventRotationFinished, "the old CA is not trusted any more"
	}
	if err := a.saveState(ctx, secret, state); err != nil {
		return err
	}
	log.FromContext(ctx).Info("Rotating the hub's CA", "stage", state.Stage, "step", step)
	a.options.Recorder.Eventf(secret, nil, corev1.EventTypeNormal, reason, "RotateCA", "%s", note)
	return nil
}

// allMembers as they stand: who is not in the list is not waited for.
func (a *Authority) allMembers(ctx context.Context) ([]pki.Member, error) {
	list := &v1alpha1.MemberClusterList{}
	if err := a.options.Live.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing the members: %w", err)
	}
	members := make([]pki.Member, len(list.Items))
	for i := range list.Items {
		members[i] = pki.Member{Name: list.Items[i].Name, Certificate: list.Items[i].Status.Certificate}
	}
	return members, nil
}

// sayWaiting says for whom a rotation waits, whenever that changes.
func (a *Authority) sayWaiting(ctx context.Context, stage pki.Stage, waiting []string) {
	members := strings.Join(waiting[:min(len(waiting), named)], ",")
	if text := fmt.Sprint(stage, len(waiting), members); text != a.waiting && len(waiting) > 0 {
		log.FromContext(ctx).V(1).Info("The rotation of the hub's CA waits for members",
			"stage", stage, "count", len(waiting), "members", members)
		a.waiting = text
	}
}

// locked patches what changed since an object was read, and nothing if somebody
// else has written it meanwhile.
func locked(before client.Object) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}
