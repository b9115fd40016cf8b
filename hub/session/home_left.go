package session

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// leaveHome looks whether a session that is placed anew, because its member is
// lost, may begin with a new home: the one that it has stays behind. It is only
// asked where an operator has said that the member is off. The message is why not.
func (r *Reconciler) leaveHome(ctx context.Context, p *pass) (message string, err error) {
	s := p.session
	p.home = homeStep{}
	if p.spec.Home.Mode != v1alpha1.HomePerUser {
		return "", nil
	}
	h := &v1alpha1.VDIHome{}
	if err := r.Client.Get(ctx, homeKey(s), h); err != nil {
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		return "", fmt.Errorf("reading the home: %w", err)
	}
	if message := homeInUse(s, h); message != "" {
		return message, nil
	}
	p.home = homeStep{record: h, movable: true}
	return "", nil
}

// leftBehind is whether a user's home lies where the session left it behind, or
// where nobody will ever find it: a new one is made.
func (r *Reconciler) leftBehind(s *v1alpha1.VDISession, h *v1alpha1.VDIHome) bool {
	if s.Status.Placement != nil {
		return false
	}
	for _, o := range s.Status.Releasing {
		if o.Superseded && o.ClusterUID == h.Spec.ClusterUID {
			return true
		}
	}
	return r.Fleet.Gone(h.Spec.ClusterUID)
}

// stillUses is whether something of a session that was given up may still write
// to a home. What was left behind in a lost member does so to the claim that it
// had there, and to no other.
func stillUses(s *v1alpha1.VDISession, h *v1alpha1.VDIHome) bool {
	for _, o := range s.Status.Releasing {
		if !o.Superseded || o.ClusterUID == h.Spec.ClusterUID && o.HomeClaimName == h.Spec.ClaimName {
			return true
		}
	}
	return false
}

// unclaimed are the earlier homes that a user has left behind and that still take
// up storage: they are neither past their retention time nor in a member that is
// gone for good.
func (r *Reconciler) unclaimed(h *v1alpha1.VDIHome) []string {
	keep, limited := h.Spec.RetentionTime.Value()
	var claims []string
	for _, left := range h.Status.LeftBehind {
		expired := limited && r.Clock.Since(left.Time.Time) > keep
		if !expired && !r.Fleet.Gone(left.ClusterUID) {
			claims = append(claims, left.ClaimName+" in "+left.ClusterName)
		}
	}
	return claims
}

// tooManyHomes says why a session gets no fresh home, and what would help.
func tooManyHomes(h *v1alpha1.VDIHome, left []string) string {
	message := fmt.Sprintf("no fresh home: %s has left %d homes of template %s behind already, of at most %d (%s); set spec.freshHome to false to run with the home that there is, "+
		"or have an operator delete claims that nobody needs and take them out of status.leftBehind of VDIHome %s",
		h.Spec.User, len(left), h.Spec.Template, mostFreshHomes, strings.Join(left[:mostFreshHomes], ", "), h.Name)
	if keep, limited := h.Spec.RetentionTime.Value(); limited {
		message += fmt.Sprintf("; each counts until %s after it was left", keep)
	}
	return message
}
