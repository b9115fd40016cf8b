package session

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/home"
)

// leaveHome checks whether a session that is rescheduled, because its member is lost, may
// begin with a new home and leave its home behind. It is only called if an operator has
// declared that the member is off. The message is the reason why not.
func (r *Reconciler) leaveHome(ctx context.Context, p *pass) (message string, err error) {
	s := p.session
	p.home = homeStep{}
	if p.spec.Home.Mode != v1alpha1.HomePerUser {
		return "", nil
	}
	h := &v1alpha1.VDIHome{}
	if err := r.Client.Get(ctx, home.Key(s), h); err != nil {
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		return "", fmt.Errorf("reading the home: %w", err)
	}
	if message := home.InUse(s, h); message != "" {
		return message, nil
	}
	p.home = homeStep{record: h, movable: true}
	return "", nil
}

// leftBehind reports whether a user's home is where the session left it behind, or in a
// member that no longer exists: a new one is created.
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
