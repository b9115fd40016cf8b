package integration

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// denial is a request that the webhook denies, such as "create secrets" or "patch
// vdisessions/status", of objects that contain a text.
type denial struct{ request, mentions string }

// denier is an admission webhook.
type denier struct {
	*httptest.Server
	mu      sync.Mutex
	denials map[denial]bool
	denied  map[denial]int
}

// canary is the name of an object that is created until the API server calls the webhook.
const canary = "denied-canary"

// startDenier registers a webhook for the requests of hub and agents in the clusters, and returns
// once they call it.
func startDenier(ctx context.Context, clusters ...*harness.ControlPlane) *denier {
	GinkgoHelper()
	d := &denier{denials: map[denial]bool{{"create configmaps", canary}: true}, denied: map[denial]int{}}
	d.Server = httptest.NewTLSServer(http.HandlerFunc(d.review))
	DeferCleanup(d.Close)
	for _, cp := range clusters {
		c, hook := clientOf(cp), d.configuration()
		Expect(c.Create(ctx, hook)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(c.Delete(ctx, hook)).To(Succeed()) })
		Eventually(ctx, func(ctx context.Context) error {
			return c.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: canary}}, client.DryRunAll)
		}).Should(MatchError(apierrors.IsForbidden, "IsForbidden"))
	}
	return d
}

func (d *denier) configuration() *registrationv1.ValidatingWebhookConfiguration {
	hook := &registrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "denier"}}
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: d.Certificate().Raw})
	url, none, fail, namespaced := d.URL, registrationv1.SideEffectClassNone, registrationv1.Fail, registrationv1.NamespacedScope
	hook.Webhooks = []registrationv1.ValidatingWebhook{{
		Name: "denier.test.invalid", ClientConfig: registrationv1.WebhookClientConfig{URL: &url, CABundle: authority},
		AdmissionReviewVersions: []string{"v1"}, SideEffects: &none, FailurePolicy: &fail,
		Rules: []registrationv1.RuleWithOperations{{
			Operations: []registrationv1.OperationType{registrationv1.OperationAll},
			Rule: registrationv1.Rule{
				APIGroups: []string{"", "apps", "networking.k8s.io", "policy", "vdi.kasm.io"}, APIVersions: []string{"*"},
				Resources: []string{
					"secrets", "configmaps", "pods", "services", "persistentvolumeclaims", "controllerrevisions", "ingresses",
					"networkpolicies", "poddisruptionbudgets", "vdisessions", "vdisessions/status", "vdihomes",
					"sessionassignments", "sessionassignments/status",
				},
				Scope: &namespaced,
			},
		}},
		MatchConditions: []registrationv1.MatchCondition{{
			Name:       "hub-agents-and-canary",
			Expression: "request.userInfo.username.startsWith('system:serviceaccount:vdi-system:') || request.name == '" + canary + "'",
		}},
	}}
	return hook
}

func (d *denier) deny(what denial) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.denials[what] = true
}

// count returns how often the webhook has denied a request.
func (d *denier) count(what denial) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.denied[what]
}

// relent ends all denials.
func (d *denier) relent() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.denials = map[denial]bool{}
}

func (d *denier) review(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	review := &admissionv1.AdmissionReview{}
	if err == nil {
		err = json.Unmarshal(body, review)
	}
	if err != nil || review.Request == nil {
		http.Error(w, "no review", http.StatusBadRequest)
		return
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: !d.matches(review.Request)}
	if !review.Response.Allowed {
		review.Response.Result = &metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: "not today"}
	}
	_ = json.NewEncoder(w).Encode(review)
}

func (d *denier) matches(r *admissionv1.AdmissionRequest) bool {
	request := strings.ToLower(string(r.Operation)) + " " + r.Resource.Resource
	if r.SubResource != "" {
		request += "/" + r.SubResource
	}
	text := r.Name + string(r.Object.Raw) + string(r.OldObject.Raw)
	d.mu.Lock()
	defer d.mu.Unlock()
	for what := range d.denials {
		if what.request == request && strings.Contains(text, what.mentions) {
			d.denied[what]++
			return true
		}
	}
	return false
}
