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
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/secret"
	"github.com/vdi-fleet/vdi-fleet/hub/template"
)

// denials returns the errors by which an API server denies a write, by remedy.
func denials() map[string]error {
	forbidden := func(cause string) error {
		return apierrors.NewForbidden(corev1.Resource("objects"), "x", errors.New(cause))
	}
	return map[string]error{
		"grant this permission":    forbidden(`User "hub" cannot write resource "objects" in API group ""`),
		"raise the quota":          forbidden("exceeded quota: objects"),
		"exempt vdi-fleet from it": forbidden(`admission webhook "x" denied the request: not today`),
		"change the session":       apierrors.NewInvalid(schema.GroupKind{Kind: "Object"}, "x", nil),
	}
}

// denying returns a client of the hub whose API server denies writes of one kind.
func (h *hubInMemory) denying(kind client.Object, err error) client.Client {
	denies := func(o client.Object) bool { return reflect.TypeOf(o) == reflect.TypeOf(kind) }
	return interceptor.NewClient(h.Client.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if denies(o) {
				return err
			}
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if denies(o) {
				return err
			}
			return c.Update(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if denies(o) {
				return err
			}
			return c.Patch(ctx, o, p, opts...)
		},
	})
}

// A request that the API server denies shows on the session that needs it, with the remedy.
func TestDeniedRequestIsShown(t *testing.T) {
	for remedy, denial := range denials() {
		shown := And(HavePrefix("False/"+v1alpha1.ReasonWriteDenied), ContainSubstring(denial.Error()), ContainSubstring(remedy))
		t.Run("of the revision of its template: "+remedy, func(t *testing.T) {
			h := newHubInMemory(t)
			h.Orders.Revisions = template.NewRevisions(h.denying(&appsv1.ControllerRevision{}, denial), "vdi-system")
			h.isDenied(denial)
			h.Expect(h.condition(v1alpha1.ConditionAccepted)).To(shown)
		})
		t.Run("of its home: "+remedy, func(t *testing.T) {
			h := newHubInMemory(t)
			h.hasHome()
			h.Client = h.denying(&v1alpha1.VDIHome{}, denial)
			h.isDenied(denial)
			h.Expect(h.condition(v1alpha1.ConditionAccepted)).To(shown)
		})
		t.Run("of its access secret: "+remedy, func(t *testing.T) {
			h := newHubInMemory(t)
			h.Orders.Secrets = &secret.Manager{Client: h.denying(&corev1.Secret{}, denial), Live: h.api, Namespace: "vdi-system"}
			h.pass()
			h.member.away = false
			_, err := h.reconcile()
			h.Expect(err).NotTo(HaveOccurred())
			h.Expect(h.condition(v1alpha1.ConditionAssigned)).To(shown)
		})
		t.Run("of its finalizer: "+remedy, func(t *testing.T) {
			h := newHubInMemory(t)
			h.Expect(h.api.Delete(t.Context(), h.stored())).To(Succeed())
			h.Client = h.denying(&v1alpha1.VDISession{}, denial)
			h.isDenied(denial)
			h.Expect(h.condition(v1alpha1.ConditionAssigned)).To(shown)
		})
		t.Run("of its status: "+remedy, func(t *testing.T) {
			h := newHubInMemory(t)
			h.answer = denial
			h.isDenied(denial)
		})
	}
}

// isDenied requires that a pass fails, so that it is retried, and that an event reports it.
func (h *hubInMemory) isDenied(denial error) {
	_, err := h.reconcile()
	h.Expect(err).To(MatchError(denial))
	h.Expect(h.events()).To(ContainElement(v1alpha1.EventWriteDenied))
}

// hasHome gives the session's template a home for each user.
func (h *hubInMemory) hasHome() {
	browser := &v1alpha1.VDITemplate{}
	h.Expect(h.api.Get(context.Background(), client.ObjectKey{Name: "browser"}, browser)).To(Succeed())
	browser.Spec.Home = v1alpha1.TemplateHome{Mode: v1alpha1.HomePerUser, MountPath: "/home/user", Size: ptr.To(resource.MustParse("1Gi"))}
	h.Expect(h.api.Update(context.Background(), browser)).To(Succeed())
}

// The assignment waits for the access secret: it is there once the session is placed, whether
// or not its member is connected.
func TestTheAccessSecretIsMadeWithThePlacement(t *testing.T) {
	h := newHubInMemory(t)
	h.Expect(h.pass().Status.Placement).NotTo(BeNil())
	secrets := &corev1.SecretList{}
	h.Expect(h.api.List(t.Context(), secrets, client.InNamespace("desktops"))).To(Succeed())
	h.Expect(secrets.Items).To(HaveLen(1))
}
