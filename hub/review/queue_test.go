package review

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/assignment"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/hub/scheduling/cache"
	"github.com/vdi-fleet/vdi-fleet/hub/session"
	"github.com/vdi-fleet/vdi-fleet/hub/session/index"
	"github.com/vdi-fleet/vdi-fleet/hub/template"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

// countingFleet counts the reviews that are computed, by namespace.
type countingFleet struct {
	session.Fleet
	multicluster.Provider
	computed   map[string]int
	evaluating bool
}

func (f *countingFleet) Recovering() bool { return false }

func (f *countingFleet) ReportedAt(types.UID) time.Time { return time.Time{} }

func (f *countingFleet) Evaluating(placement.TemplateKey) bool { return f.evaluating }

func (f *countingFleet) Review(_ context.Context, in cache.DryRun) v1alpha1.PlacementReviewStatus {
	f.computed[in.Request.Namespace]++
	return v1alpha1.PlacementReviewStatus{Reason: v1alpha1.ReasonPlaced, Placed: in.Count}
}

// reviewsInMemory is the controller of reviews with its workqueue, stepped by the
// test: what is created and written reaches it as the events of a watch.
type reviewsInMemory struct {
	*WithT
	*Reconciler
	fleet      *countingFleet
	queue      workqueue.TypedRateLimitingInterface[reconcile.Request]
	reconciles int
}

func newReviewsInMemory(t *testing.T) *reviewsInMemory {
	scheme := runtime.NewScheme()
	g := NewWithT(t)
	g.Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	browser := &v1alpha1.VDITemplate{}
	browser.Name, browser.Spec.Image, browser.Spec.Port = "browser", "browser:1", 80
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(browser).WithStatusSubresource(&v1alpha1.PlacementReview{}).Build()
	fleet := &countingFleet{computed: map[string]int{}}
	r := &reviewsInMemory{WithT: g, fleet: fleet}
	sessions := &session.Reconciler{
		Client: api, Cached: index.Of(), Fleet: fleet, Members: fleet, Orders: &assignment.Orders{Revisions: template.NewRevisions(api, "vdi-system")},
		Clock: testclock.NewFakePassiveClock(sessiontest.Now),
	}
	r.Reconciler = &Reconciler{Client: api, Members: fleet, Placement: fleet, Sessions: sessions, Clock: sessions.Clock}
	r.queue = r.pending.workqueue("", workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(r.queue.ShutDown)
	return r
}

func (r *reviewsInMemory) create(namespace, name string, count int32) client.ObjectKey {
	review := &v1alpha1.PlacementReview{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, CreationTimestamp: metav1.NewTime(sessiontest.Now),
	}}
	review.Spec.Session, review.Spec.Count = &v1alpha1.SessionSpec{User: "ann", Template: "browser"}, count
	r.Expect(r.Client.Create(context.Background(), review)).To(Succeed())
	r.pending.observed().Create(event.CreateEvent{Object: review})
	key := client.ObjectKeyFromObject(review)
	r.queue.Add(reconcile.Request{NamespacedName: key})
	return key
}

func (r *reviewsInMemory) review(key client.ObjectKey) *v1alpha1.PlacementReview {
	review := &v1alpha1.PlacementReview{}
	r.Expect(r.Client.Get(context.Background(), key, review)).To(Succeed())
	return review
}

// step carries out one reconcile and delivers the event of what it wrote.
func (r *reviewsInMemory) step() {
	req, _ := r.queue.Get()
	defer r.queue.Done(req)
	r.reconciles++
	before := r.review(req.NamespacedName)
	_, err := r.Reconcile(context.Background(), req)
	r.Expect(err).NotTo(HaveOccurred())
	if after := r.review(req.NamespacedName); after.ResourceVersion != before.ResourceVersion {
		r.pending.observed().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after})
		r.queue.Add(req)
	}
}

// until steps until a review is answered, and returns how many reconciles that took.
func (r *reviewsInMemory) until(key client.ObjectKey) int {
	began := r.reconciles
	for r.review(key).Status.ReviewTime == nil && r.queue.Len() > 0 {
		r.step()
	}
	r.Expect(r.review(key).Status.ReviewTime).NotTo(BeNil(), "%s is not answered", key)
	return r.reconciles - began
}

// A namespace that creates reviews of 10000 sessions in a loop delays the single
// review of another by a few reconciles, of which one is computed.
func TestAFloodOfReviewsDelaysAnotherNamespaceByOneReview(t *testing.T) {
	r := newReviewsInMemory(t)
	for i := range 5 * maxPendingReviews {
		r.create("flood", fmt.Sprintf("flood-%d", i), 10000)
	}
	single := r.create("desktops", "single", 1)
	if n := r.until(single); n > 10 {
		t.Errorf("answered after %d reconciles, want at most 10", n)
	}
	r.Expect(r.fleet.computed["flood"]).To(BeNumerically("<=", 1), "turns of the flood before it")
	r.Expect(r.review(single).Status.Reason).To(Equal(v1alpha1.ReasonPlaced))
	// And again, while the flood goes on.
	before := r.fleet.computed["flood"]
	r.Expect(r.until(r.create("desktops", "second", 1))).To(BeNumerically("<=", 15))
	r.Expect(r.fleet.computed["flood"] - before).To(BeNumerically("<=", 2))
}

func TestReviewsBeyondTheBoundOfANamespaceAreRefusedAndNotComputed(t *testing.T) {
	r := newReviewsInMemory(t)
	r.fleet.evaluating = true // none is answered
	var first client.ObjectKey
	for i := range maxPendingReviews {
		key := r.create("flood", fmt.Sprintf("pending-%d", i), 10000)
		if i == 0 {
			first = key
		}
	}
	beyond := r.create("flood", "beyond", 7)
	if n := r.until(beyond); n > 2 {
		t.Errorf("answered after %d reconciles, want at once, or after one that was queued", n)
	}
	status := r.review(beyond).Status
	r.Expect(status.Reason).To(Equal(v1alpha1.ReasonTooManyReviews))
	r.Expect(status.Message).To(Equal("namespace flood has 100 reviews that are not answered yet, which is the maximum: wait for them or delete them, then create this one again; with spec.count one review covers many sessions"))
	r.Expect([]int32{status.Placed, status.Waiting}).To(Equal([]int32{0, 7}))
	r.Expect(r.fleet.computed).To(BeEmpty())

	// Another namespace has a bound of its own, and an answer or a deletion frees one.
	r.fleet.evaluating = false
	r.until(r.create("desktops", "other", 1))
	r.Expect(r.fleet.computed["desktops"]).To(Equal(1))
	r.pending.observed().Delete(event.DeleteEvent{Object: r.review(first)})
	r.Expect(r.Client.Delete(t.Context(), r.review(first))).To(Succeed())
	again := r.create("flood", "again", 1)
	r.Expect(r.pending.admits(again)).To(BeTrue())
}

func TestAnsweredReviewsTakeNoneOfTheBound(t *testing.T) {
	r := newReviewsInMemory(t)
	for i := range 2 * maxPendingReviews {
		r.until(r.create("desktops", fmt.Sprintf("r-%d", i), 1))
	}
	r.Expect(r.fleet.computed["desktops"]).To(Equal(2 * maxPendingReviews))
	r.Expect(r.pending.namespaces).To(BeEmpty(), "nothing is kept of reviews that are answered")
}
