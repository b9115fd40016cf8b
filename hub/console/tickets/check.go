package tickets

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// policy is the admission policy that must deny a ticket in the name of somebody else.
const policy = "vdi-access-ticket"

// +kubebuilder:rbac:namespace=vdi-system,groups=vdi.kasm.io,resources=accesstickets,verbs=create

// Guarded returns a check that the API server's admission denies a ticket in the name of somebody else. The
// console's role permits to create tickets in its own namespace: what denies one there is the policy.
func Guarded(c client.Client, namespace string) func(context.Context) error {
	return func(ctx context.Context) error {
		ticket := &v1alpha1.AccessTicket{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "vdi-console-check-" + strings.ToLower(rand.Text())},
			Spec:       v1alpha1.AccessTicketSpec{Access: v1alpha1.AccessConsole, User: "somebody-else", Challenge: v1alpha1.TicketChallenge(rand.Text())},
		}
		err := c.Create(ctx, ticket, client.DryRunAll)
		switch {
		case err == nil:
			return fmt.Errorf("the API server admits tickets in the name of others: install the ValidatingAdmissionPolicy %s and its binding (chart value admission.policies)", policy)
		case apierrors.IsForbidden(err) && strings.Contains(err.Error(), policy):
			return nil
		}
		return fmt.Errorf("it is not certain that the API server denies tickets in the name of others: %w", err)
	}
}

const (
	// sweepEvery is how often tickets that nobody redeemed are deleted, and keep how old they are then.
	sweepEvery = time.Minute
	keep       = 2 * time.Minute
)

// Sweep deletes tickets that nobody redeemed, until the context ends (manager.Runnable).
func (r *Redeemer) Sweep(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := r.sweep(ctx); err != nil {
			log.FromContext(ctx).Error(err, "Deleting tickets that nobody redeemed")
		}
	}, sweepEvery)
	return nil
}

func (r *Redeemer) sweep(ctx context.Context) error {
	var list v1alpha1.AccessTicketList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	var errs []error
	for i := range list.Items {
		if t := &list.Items[i]; r.Clock.Since(t.CreationTimestamp.Time) > keep {
			errs = append(errs, client.IgnoreNotFound(r.Client.Delete(ctx, t)))
		}
	}
	return errors.Join(errs...)
}
