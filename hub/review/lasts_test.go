package review

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	testclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/session"
	"github.com/vdi-fleet/vdi-fleet/hub/session/index"
)

// One that the hub could not answer, or was not there to, must not stay either.
func TestAReviewThatWasNeverAnsweredIsDeleted(t *testing.T) {
	g := NewWithT(t)
	scheme := runtime.NewScheme()
	g.Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	review := &v1alpha1.PlacementReview{ObjectMeta: metav1.ObjectMeta{
		Namespace: "desktops", Name: "old", UID: "uid-old", CreationTimestamp: metav1.NewTime(now.Add(-reviewLasts - time.Second)),
	}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(review).WithStatusSubresource(review).Build()
	r := &Reconciler{Client: c, Sessions: &session.Reconciler{Client: c, Cached: index.Of()}, Clock: testclock.NewFakePassiveClock(now)}
	key := client.ObjectKeyFromObject(review)
	_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(apierrors.IsNotFound(c.Get(t.Context(), key, review))).To(BeTrue())
}
