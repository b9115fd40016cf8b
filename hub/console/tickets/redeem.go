package tickets

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// leeway is by how much the clocks of the API server and the console may differ.
const leeway = 5 * time.Second

// ErrInvalid is the error of a ticket that cannot be redeemed. It does not tell why: whoever tries may be
// guessing.
var ErrInvalid = errors.New("this ticket is not valid: it was used, is older than a minute, or is another user's; run kubectl vdi console again")

// Redeemer redeems tickets.
type Redeemer struct {
	// Client deletes tickets as the console.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	// Guarded returns why it is not certain that nobody can create tickets in the name of somebody else, nil
	// if it is.
	Guarded func() error
	Clock   clock.PassiveClock
}

// +kubebuilder:rbac:groups=vdi.kasm.io,resources=accesstickets,verbs=get;list;watch;delete

// Redeem returns the spec of a ticket for whoever has its secret. One call for each ticket succeeds.
func (r *Redeemer) Redeem(ctx context.Context, key types.NamespacedName, secret string, access v1alpha1.TicketAccess) (v1alpha1.AccessTicketSpec, error) {
	if err := r.Guarded(); err != nil {
		return v1alpha1.AccessTicketSpec{}, err
	}
	ticket := &v1alpha1.AccessTicket{}
	if err := r.Live.Get(ctx, key, ticket); err != nil {
		return v1alpha1.AccessTicketSpec{}, invalidIfGone(err, "reading a ticket")
	}
	age := r.Clock.Since(ticket.CreationTimestamp.Time)
	switch {
	case subtle.ConstantTimeCompare([]byte(v1alpha1.TicketChallenge(secret)), []byte(ticket.Spec.Challenge)) != 1,
		ticket.Spec.Access != access, age > v1alpha1.TicketLifetime+leeway, age < -leeway, !ticket.DeletionTimestamp.IsZero():
		return v1alpha1.AccessTicketSpec{}, ErrInvalid
	}
	// Whoever deletes it has it: of two that try at once one fails.
	if err := r.Client.Delete(ctx, ticket, client.Preconditions{UID: ptr.To(ticket.UID)}); err != nil {
		return v1alpha1.AccessTicketSpec{}, invalidIfGone(err, "redeeming a ticket")
	}
	return ticket.Spec, nil
}

// invalidIfGone returns ErrInvalid for a ticket that does not exist, or another error as it is.
func invalidIfGone(err error, what string) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return ErrInvalid
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Groups returns the groups of a ticket without those of Kubernetes: a cluster administrator logs in with the
// rights of the user's other groups.
func Groups(spec v1alpha1.AccessTicketSpec) []string {
	var out []string
	for _, group := range spec.Groups {
		if !strings.HasPrefix(group, "system:") {
			out = append(out, group)
		}
	}
	return out
}
