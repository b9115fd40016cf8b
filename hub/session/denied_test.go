package session

import (
	"context"
	"errors"
	"reflect"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/secret"
	"github.com/vdi-fleet/vdi-fleet/hub/template"
)

// denying is the hub's API server with a quota that is used up for one kind.
func (h *hubInMemory) denying(kind client.Object) client.Client {
	return interceptor.NewClient(h.api.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if reflect.TypeOf(o) == reflect.TypeOf(kind) {
				return apierrors.NewForbidden(corev1.Resource("objects"), o.GetName(), errors.New("exceeded quota: objects"))
			}
			return c.Create(ctx, o, opts...)
		},
	})
}

// A request that the API server denies shows on the session that needs it, with the remedy.
func TestDeniedRequestIsShown(t *testing.T) {
	shown := And(HavePrefix("False/"+v1alpha1.ReasonWriteDenied), ContainSubstring("exceeded quota"), ContainSubstring("raise the quota"))
	t.Run("of the revision of its template", func(t *testing.T) {
		h := newHubInMemory(t)
		h.Revisions = template.NewRevisions(h.denying(&appsv1.ControllerRevision{}), "vdi-system")
		_, err := h.reconcile()
		h.Expect(err).To(MatchError(apierrors.IsForbidden, "a denial, which is retried"))
		h.Expect(h.condition(v1alpha1.ConditionAccepted)).To(shown)
		h.Expect(h.events()).To(ContainElement(v1alpha1.EventWriteDenied))
	})
	t.Run("of its access secret", func(t *testing.T) {
		h := newHubInMemory(t)
		h.pass()
		h.Orders.Secrets = &secret.Manager{Client: h.denying(&corev1.Secret{}), Live: h.api, Namespace: "vdi-system"}
		h.member.away = false
		_, err := h.reconcile()
		h.Expect(err).NotTo(HaveOccurred())
		h.Expect(h.condition(v1alpha1.ConditionAssigned)).To(shown)
	})
}
