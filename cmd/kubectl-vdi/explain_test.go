package main

import (
	"context"
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// answering returns the hub's cluster with a hub that answers a review after it was read, so that
// only a watch receives the answer. Without an answer the hub has no leader.
func answering(t *testing.T, answer *v1alpha1.PlacementReviewStatus) (c *cluster, requested *v1alpha1.PlacementReviewSpec) {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	requested = &v1alpha1.PlacementReviewSpec{}
	built := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, api client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if err := api.Get(ctx, key, o, opts...); err != nil {
				return err
			}
			review, is := o.(*v1alpha1.PlacementReview)
			if !is || answer == nil || review.Status.ReviewTime != nil {
				return nil
			}
			review.Spec.DeepCopyInto(requested)
			answered := review.DeepCopy()
			answered.Status = *answer
			now := metav1.Now()
			answered.Status.ReviewTime = &now
			return api.Update(ctx, answered)
		},
	}).Build()
	return &cluster{client: built}, requested
}

func noReviewIsLeft(t *testing.T, c *cluster) {
	t.Helper()
	list := &v1alpha1.PlacementReviewList{}
	if err := c.client.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) > 0 {
		t.Errorf("%d reviews are left", len(list.Items))
	}
}

func TestExplainPrintsTheReviewOfASession(t *testing.T) {
	g := NewWithT(t)
	c, requested := answering(t, &v1alpha1.PlacementReviewStatus{
		Reason: v1alpha1.ReasonPlaced, Message: "eu: 7 slots left, the only one of 3 that fits", Policy: "home", Placed: 1,
		Clusters: []v1alpha1.ClusterVerdict{
			{ClusterName: "eu", Region: "eu-west", Fits: true, Rank: 1, Slots: 7, Sessions: 1, CapacityAge: "2.345s",
				Scores: []v1alpha1.PlacementScore{{Name: "Overflow", Value: "0"}, {Name: "LeastLoaded", Value: "3/9"}, {Name: "Hash", Value: "123"}}},
			{ClusterName: "us", Filter: "Scheduling", Message: "is cordoned (open it again)", CapacityAge: "1m30.4s"},
			{ClusterName: "ap", Region: "ap-south", Filter: "Reported", Message: "has not reported its capacity yet"},
		},
	})
	out, err := run(c, "", "explain", "ann", "-n", "desktops")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(out).To(Equal(`Session desktops/ann would be placed in eu now.
Placed: eu: 7 slots left, the only one of 3 that fits
Policy: home

RANK   CLUSTER   REGION     VERDICT      SLOTS   CAPACITY AGE   WHY
1      eu        eu-west    fits         7       2.3s           Overflow 0, LeastLoaded 3/9
-      us        -          Scheduling   -       1m30s          is cordoned (open it again)
-      ap        ap-south   Reported     -       never          has not reported its capacity yet
`))
	g.Expect(*requested).To(Equal(v1alpha1.PlacementReviewSpec{SessionName: "ann", Count: 1}))
	noReviewIsLeft(t, c)
}

func TestExplainReviewsHypotheticalSessions(t *testing.T) {
	g := NewWithT(t)
	c, requested := answering(t, &v1alpha1.PlacementReviewStatus{
		Reason: v1alpha1.ReasonUnschedulable, Message: "1 cluster: 1 lacks cpu", Placed: 7, Waiting: 90, NotTried: 3, OmittedClusters: 4,
		Clusters: []v1alpha1.ClusterVerdict{{ClusterName: "eu", Fits: true, Rank: 1, Slots: 199, Provisioning: 14, Growable: 182, Sessions: 7, CapacityAge: "1s"}},
	})
	args := []string{"explain", "-n=desktops", "--template=browser", "--user=ann", "--groups=staff,admins", "--resources=cpu=2,memory=4Gi",
		"--region=eu,us", "--prefer-region=us", "--label=team=red", "--policy=home", "--count=100", "--distinct-users"}
	out, err := run(c, "", args...)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(out).To(And(
		HavePrefix("Of 100 sessions like this, 7 would be placed now and 90 would wait; 3 were not tried.\nUnschedulable: 1 cluster: 1 lacks cpu\n"),
		ContainSubstring("\n7          1      eu"), ContainSubstring(" 199 (3 free, 14 provisioning, 182 growable) "), HaveSuffix("and 4 more clusters\n")))
	g.Expect(requested.Session.Resources.Cpu().Equal(resource.MustParse("2"))).To(BeTrue())
	g.Expect(requested.Session.Resources).To(HaveLen(2))
	requested.Session.Resources = nil
	g.Expect(*requested).To(Equal(v1alpha1.PlacementReviewSpec{
		Session: &v1alpha1.SessionSpec{User: "ann", Groups: []string{"staff", "admins"}, Template: "browser",
			Placement: v1alpha1.SessionPlacement{Policy: "home", RequiredRegions: []string{"eu", "us"}, PreferredRegions: []string{"us"}}},
		Labels: map[string]string{"team": "red"}, Count: 100, DistinctUsers: true,
	}))

	out, err = run(c, "", append(args, "-o=json")...)
	g.Expect(err).NotTo(HaveOccurred())
	review := &v1alpha1.PlacementReview{}
	g.Expect(json.Unmarshal([]byte(out), review)).To(Succeed())
	g.Expect(review.Kind).To(Equal("PlacementReview"))
	g.Expect(review.Status.Clusters).To(HaveExactElements(HaveField("Sessions", int32(7))))
	g.Expect(review.Status.Waiting).To(Equal(int32(90)))
	noReviewIsLeft(t, c)
}

func TestExplainPrintsHowManySessionsWaitForNodes(t *testing.T) {
	g := NewWithT(t)
	c, _ := answering(t, &v1alpha1.PlacementReviewStatus{Reason: v1alpha1.ReasonUnschedulable, Message: "it is full", Placed: 90, PlacedProvisioning: 14, PlacedGrowable: 70, Waiting: 10})
	g.Expect(run(c, "", "explain", "-n=desktops", "--template=browser", "--user=ann", "--count=100")).To(Equal(
		"Of 100 sessions like this, 90 would be placed now (6 in free slots, 14 on nodes that are being added, 70 on nodes that must be added first) and 10 would wait.\nUnschedulable: it is full\n"))
}

func TestExplainPrintsThatASessionIsPlacedNowhere(t *testing.T) {
	g := NewWithT(t)
	c, _ := answering(t, &v1alpha1.PlacementReviewStatus{Reason: v1alpha1.ReasonSessionNotFound, Message: "there is none", Waiting: 1})
	g.Expect(run(c, "", "explain", "bob", "-n=desktops")).To(Equal("Session desktops/bob would be placed nowhere now.\nSessionNotFound: there is none\n"))
}

func TestExplainReturnsErrorsWithRemedies(t *testing.T) {
	g := NewWithT(t)
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"no arguments", nil, "--template and --user"},
		{"half a session", []string{"--user=ann"}, "--template and --user"},
		{"a session and another", []string{"ann", "--template=browser"}, "or --template of a hypothetical one"},
		{"less than one", []string{"ann", "--count=0"}, "--count 0"},
		{"no quantity", []string{"--template=browser", "--user=ann", "--resources=cpu=many"}, "--resources cpu=many"},
		{"no answer", []string{"ann", "--timeout=100ms"}, "check that one of its replicas leads"},
	} {
		c, _ := answering(t, nil)
		_, err := run(c, "", append([]string{"explain", "-n=desktops"}, tc.args...)...)
		g.Expect(err).To(MatchError(ContainSubstring(tc.want)), tc.name)
		noReviewIsLeft(t, c)
	}

	kind := schema.GroupKind{Group: v1alpha1.GroupName, Kind: "PlacementReview"}
	resource := schema.GroupResource{Group: v1alpha1.GroupName, Resource: "placementreviews"}
	for _, tc := range []struct {
		name string
		err  error
		want string
	}{
		{"no CRD", &meta.NoKindMatchError{GroupKind: kind}, "with the CRDs of `make install`"},
		{"not allowed", apierrors.NewForbidden(resource, "", nil), "you need permission to create placementreviews.vdi.kasm.io in namespace desktops"},
		{"no such namespace", apierrors.NewNotFound(corev1.Resource("namespaces"), "desktops"), "--namespace"},
	} {
		scheme, err := newScheme()
		g.Expect(err).NotTo(HaveOccurred())
		c := &cluster{client: fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
			Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return tc.err },
		}).Build()}
		_, err = run(c, "", "explain", "ann", "-n=desktops")
		g.Expect(err).To(MatchError(ContainSubstring(tc.want)), tc.name)
	}
}
