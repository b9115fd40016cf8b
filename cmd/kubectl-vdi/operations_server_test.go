package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// operations is a hub's cluster with a real API server and no hub: the test writes the hub's
// status.
type operations struct {
	*WithT
	ctx        context.Context
	api        client.WithWatch
	kubeconfig string
}

// newOperations returns a hub's cluster with two members, eu and us, whose agents are connected.
func newOperations(t *testing.T) *operations {
	t.Helper()
	root, err := harness.Root()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	t.Cleanup(cancel)
	o := &operations{WithT: NewWithT(t), ctx: ctx}
	hub, err := harness.StartControlPlane(ctx, harness.ControlPlaneOptions{
		Name: "hub", APIOnly: true, CRDDirs: []string{filepath.Join(root, "deploy/charts/vdi-hub/files/crds")}, Namespaces: map[string]map[string]string{"desktops": nil},
	})
	o.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { o.Expect(hub.Stop()).To(Succeed()) })
	o.kubeconfig, err = hub.KubeconfigFor("olga@example.com", "system:masters")
	o.Expect(err).NotTo(HaveOccurred())
	scheme, err := newScheme()
	o.Expect(err).NotTo(HaveOccurred())
	o.api, err = client.NewWithWatch(hub.Config, client.Options{Scheme: scheme})
	o.Expect(err).NotTo(HaveOccurred())
	for _, name := range []string{"eu", "us"} {
		mc := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
		mc.Spec.Region, mc.Spec.IngressDomain = name, name+".example.com"
		o.Expect(o.api.Create(ctx, mc)).To(Succeed())
		o.setStatus(name, func(s *v1alpha1.MemberClusterStatus) {
			s.Fingerprint = "fp-" + name
			o.condition(s, v1alpha1.ConditionConnected, "True", v1alpha1.ReasonConnected, "the agent's stream is open")
		})
	}
	return o
}

// vdi runs a command.
func (o *operations) vdi(stdin string, args ...string) (string, error) {
	return run(&cluster{}, stdin, append(args, "--kubeconfig="+o.kubeconfig)...)
}

func (o *operations) member(name string) *v1alpha1.MemberCluster {
	mc := &v1alpha1.MemberCluster{}
	o.Expect(o.api.Get(o.ctx, client.ObjectKey{Name: name}, mc)).To(Succeed())
	return mc
}

// setStatus writes a member's status as the hub would.
func (o *operations) setStatus(name string, change func(*v1alpha1.MemberClusterStatus)) {
	mc := o.member(name)
	change(&mc.Status)
	o.Expect(o.api.Status().Update(o.ctx, mc)).To(Succeed())
}

func (*operations) condition(s *v1alpha1.MemberClusterStatus, kind string, status metav1.ConditionStatus, reason, message string) {
	v1alpha1.SetCondition(&s.Conditions, 9, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message})
}

// drained sets the condition Drained.
func (o *operations) drained(status metav1.ConditionStatus, reason, message string) {
	o.setStatus("eu", func(s *v1alpha1.MemberClusterStatus) {
		s.Drain = &v1alpha1.DrainStatus{StartTime: metav1.Now()}
		o.condition(s, v1alpha1.ConditionDrained, status, reason, message)
	})
}

func TestOperationsOnARealAPIServer(t *testing.T) {
	o := newOperations(t)
	for _, c := range []struct {
		name string
		run  func(*operations)
	}{
		{"cordon and uncordon", cordoning}, {"drain", draining}, {"fence", fencing}, {"rebalance", rebalancing},
	} {
		t.Run(c.name, func(t *testing.T) {
			step := *o
			step.WithT = NewWithT(t)
			c.run(&step)
		})
	}
}

func cordoning(o *operations) {
	o.Expect(o.vdi("", "cordon", "eu")).To(ContainSubstring("no new sessions are placed there"))
	o.Expect(o.member("eu").Spec.Scheduling).To(Equal(v1alpha1.SchedulingCordoned))
	o.Expect(o.vdi("", "cordon", "eu")).To(ContainSubstring("nothing to do"))
	o.Expect(o.vdi("", "uncordon", "eu", "-o=json")).To(ContainSubstring(`"changed": true`))
	o.Expect(o.member("eu").Spec.Scheduling).To(Equal(v1alpha1.SchedulingActive))
	_, err := o.vdi("", "cordon", "ap")
	o.Expect(err).To(MatchError(ContainSubstring("reading MemberCluster ap")))
}

func draining(o *operations) {
	_, err := o.vdi("", "drain", "eu", "--max-unavailable=0")
	o.Expect(err).To(MatchError(ContainSubstring("less than 1")))
	begun := time.Now()
	o.Expect(o.vdi("", "drain", "eu", "--wait=false", "--deadline=2h", "--max-unavailable=10")).To(ContainSubstring("cancel it with `kubectl vdi uncordon eu`"))
	spec := o.member("eu").Spec
	o.Expect(spec.Scheduling).To(Equal(v1alpha1.SchedulingDraining))
	o.Expect(*spec.Drain.MaxUnavailable).To(BeEquivalentTo(10))
	o.Expect(spec.Drain.Deadline.Time).To(BeTemporally("~", begun.Add(2*time.Hour), time.Minute))

	_, err = o.vdi("", "drain", "eu", "--timeout=100ms")
	o.Expect(err).To(MatchError(And(ContainSubstring("check that it runs"), ContainSubstring("the drain continues"))))
	o.Expect(o.member("eu").Spec.Drain).To(Equal(spec.Drain), "waiting again changes nothing")

	o.drained("False", v1alpha1.ReasonDraining, "3 sessions are still there")
	_, err = o.vdi("", "drain", "eu", "--timeout=100ms", "--max-unavailable=2")
	o.Expect(err).To(MatchError(ContainSubstring("3 sessions are still there")))
	o.Expect(*o.member("eu").Spec.Drain.MaxUnavailable).To(BeEquivalentTo(2))
	o.Expect(o.member("eu").Spec.Drain.Deadline).To(Equal(spec.Drain.Deadline))

	o.drained("False", v1alpha1.ReasonSessionsRemain, "2 have their homes there")
	_, err = o.vdi("", "drain", "eu")
	o.Expect(err).To(MatchError(ContainSubstring("no more sessions can be moved now: 2 have their homes there")))

	o.drained("False", v1alpha1.ReasonDraining, "1 session is still there")
	type answer struct {
		text string
		err  error
	}
	done := make(chan answer, 1)
	go func() {
		text, err := o.vdi("", "drain", "eu", "-o=json")
		done <- answer{text, err}
	}()
	o.Consistently(done, "1s").ShouldNot(Receive())
	o.drained("True", v1alpha1.ReasonDrained, "nothing is placed there any more")
	got := answer{}
	o.Eventually(done, "20s").Should(Receive(&got))
	o.Expect(got.err).NotTo(HaveOccurred())
	o.Expect(got.text).To(And(HavePrefix("1 session is still there\n"), ContainSubstring(`"drained": true`)))

	o.drained("False", v1alpha1.ReasonDraining, "1 session is still there")
	go func() {
		text, err := o.vdi("", "drain", "eu")
		done <- answer{text, err}
	}()
	o.Consistently(done, "1s").ShouldNot(Receive())
	o.Expect(o.vdi("", "uncordon", "eu")).To(ContainSubstring("accepts sessions again"))
	o.Eventually(done, "20s").Should(Receive(&got))
	o.Expect(got.err).To(MatchError(ContainSubstring("was canceled: its scheduling is Active")))
	o.Expect(o.member("eu").Spec.Drain).To(BeZero())
}

// policies creates the admission policies in a file of the hub's chart.
func (o *operations) policies(file string) {
	root, err := harness.Root()
	o.Expect(err).NotTo(HaveOccurred())
	in, err := os.Open(filepath.Join(root, "deploy/charts/vdi-hub/files/admission", file))
	o.Expect(err).NotTo(HaveOccurred())
	defer in.Close()
	for decoder := yaml.NewYAMLOrJSONDecoder(in, 4096); ; {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); err != nil {
			return
		}
		o.Expect(o.api.Create(o.ctx, object)).To(Succeed())
	}
}

func fencing(o *operations) {
	o.policies("member-fenced.yaml")
	_, err := o.vdi("", "fence", "eu", "--yes")
	o.Expect(err).To(MatchError(And(ContainSubstring("condition Connected is True"), ContainSubstring("kubectl vdi drain eu"))))
	bare := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "ap"}}
	bare.Spec.Region, bare.Spec.IngressDomain = "ap", "ap.example.com"
	o.Expect(o.api.Create(o.ctx, bare)).To(Succeed())
	_, err = o.vdi("", "fence", "ap", "--yes")
	o.Expect(err).To(MatchError(ContainSubstring("has no fingerprint")))

	o.session("held", "eu", v1alpha1.FailoverHold, nil)
	o.session("fenced", "eu", v1alpha1.FailoverFence, nil)
	o.session("there", "us", v1alpha1.FailoverHold, nil)
	o.setStatus("eu", func(s *v1alpha1.MemberClusterStatus) {
		o.condition(s, v1alpha1.ConditionConnected, "False", v1alpha1.ReasonDisconnected, "gone")
	})
	text, err := o.vdi("us\n", "fence", "eu")
	o.Expect(err).To(MatchError(ContainSubstring(`"us" is not eu`)))
	o.Expect(text).To(And(ContainSubstring("cluster fp-eu"), ContainSubstring("2 sessions (1 of Hold, 1 of Fence) are rescheduled"), ContainSubstring("their sessions run twice")))
	_, err = o.vdi("", "fence", "eu")
	o.Expect(err).To(MatchError(ContainSubstring("--yes")))
	o.Expect(o.member("eu").Spec.Fenced).To(BeNil())

	o.Eventually(func() error { _, err := o.vdi("eu\n", "fence", "eu"); return err }, "20s").Should(Succeed())
	f := o.member("eu").Spec.Fenced
	o.Expect(f).NotTo(BeNil())
	o.Expect(f.By).To(Equal("olga@example.com"), "the API server's user name, which the policy requires")
	o.Expect(f.Fingerprint).To(Equal("fp-eu"))
	o.Expect(f.At.Time).To(BeTemporally("~", time.Now(), time.Minute))
	o.Expect(o.vdi("", "fence", "eu")).To(ContainSubstring("nothing to do, olga@example.com has declared it fenced"))
	o.Expect(o.vdi("", "unfence", "eu")).To(ContainSubstring("not declared fenced any more"))
	o.Expect(o.member("eu").Spec.Fenced).To(BeNil())
	o.Expect(o.vdi("", "unfence", "eu")).To(ContainSubstring("nothing to do"))
	o.Expect(o.api.DeleteAllOf(o.ctx, &v1alpha1.VDISession{}, client.InNamespace("desktops"))).To(Succeed())
}

// session creates a session that runs in a member.
func (o *operations) session(name, member string, mode v1alpha1.FailoverMode, idle *metav1.Time) *v1alpha1.VDISession {
	s := &v1alpha1.VDISession{ObjectMeta: metav1.ObjectMeta{Namespace: "desktops", Name: name}}
	s.Spec.User, s.Spec.Template = "ann@example.com", "browser"
	o.Expect(o.api.Create(o.ctx, s)).To(Succeed())
	s.Status.Phase, s.Status.Epoch, s.Status.IdleSince = v1alpha1.PhaseRunning, 1, idle
	s.Status.Placement = &v1alpha1.Placement{
		ClusterName: member, ClusterUID: o.member(member).UID, Epoch: 1, Run: 1, FailoverMode: mode, PlacementTime: metav1.Now(),
	}
	o.Expect(o.api.Status().Update(o.ctx, s)).To(Succeed())
	return s
}

// recommend answers reviews as a hub that places every session in us.
func (o *operations) recommend(ctx context.Context) error {
	w, err := o.api.Watch(ctx, &v1alpha1.PlacementReviewList{})
	if err != nil {
		return err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		review, is := event.Object.(*v1alpha1.PlacementReview)
		if !is || review.Status.ReviewTime != nil || !review.DeletionTimestamp.IsZero() {
			continue
		}
		now := metav1.Now()
		review.Status = v1alpha1.PlacementReviewStatus{ReviewTime: &now, Reason: v1alpha1.ReasonPlaced, Placed: 1, Clusters: []v1alpha1.ClusterVerdict{
			withUID(fitting("us", 1, 9, "Spread", "1")), withUID(fitting("eu", 2, 9, "Spread", "9")),
		}}
		if err := client.IgnoreNotFound(o.api.Status().Update(ctx, review)); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

func withUID(c v1alpha1.ClusterVerdict) v1alpha1.ClusterVerdict {
	c.ClusterUID = types.UID("uid-" + c.ClusterName)
	return c
}

func rebalancing(o *operations) {
	ago := func(d time.Duration) *metav1.Time { at := metav1.NewTime(time.Now().Add(-d)); return &at }
	o.session("long", "eu", v1alpha1.FailoverRestart, ago(2*time.Hour))
	o.session("short", "eu", v1alpha1.FailoverRestart, ago(time.Hour))
	o.session("used", "eu", v1alpha1.FailoverRestart, nil)
	o.session("there", "us", v1alpha1.FailoverRestart, ago(time.Hour))
	home := o.session("home", "eu", v1alpha1.FailoverHold, ago(time.Hour))
	home.Status.Home = &v1alpha1.SessionHome{ClusterName: "eu", ClusterUID: "u", ClaimName: "c"}
	o.Expect(o.api.Status().Update(o.ctx, home)).To(Succeed())
	ctx, stop := context.WithCancel(o.ctx)
	done := make(chan error, 1)
	go func() { done <- o.recommend(ctx) }()
	defer func() {
		stop()
		o.Expect(<-done).To(Succeed())
	}()
	requested := func() []string {
		list := &v1alpha1.VDISessionList{}
		o.Expect(o.api.List(o.ctx, list)).To(Succeed())
		var names []string
		for _, s := range list.Items {
			if from := s.Annotations[v1alpha1.AnnotationMove]; from != "" {
				o.Expect(from).To(Equal("eu"))
				names = append(names, s.Name)
			}
		}
		return names
	}
	text, err := o.vdi("", "rebalance", "--dry-run")
	o.Expect(err).NotTo(HaveOccurred())
	o.Expect(text).To(And(MatchRegexp(`(?s)SESSION +USER +FROM +TO +IDLE +WHY\ndesktops/long +ann@example.com +eu +us +2h0m.*desktops/short`),
		ContainSubstring("Spread 9, there 1"), ContainSubstring("2 would be moved without --dry-run")))
	o.Expect(requested()).To(BeEmpty())
	o.Expect(o.vdi("", "rebalance", "--from=us")).To(HavePrefix("Nothing to move: of 1 idle sessions"))
	o.Expect(o.vdi("", "rebalance", "--to-region=ap")).To(HavePrefix("Nothing to move: of 3 idle sessions"))
	o.Expect(o.vdi("", "rebalance", "--max=1")).To(ContainSubstring("Requested the move of 1"))
	o.Expect(requested()).To(ConsistOf("long"), "the session that was idle for longest")
	text, err = o.vdi("", "rebalance", "-o=json")
	o.Expect(err).NotTo(HaveOccurred())
	var result struct{ Moves []move }
	o.Expect(json.Unmarshal([]byte(text), &result)).To(Succeed())
	o.Expect(result.Moves).To(HaveExactElements(HaveField("Session", "desktops/short")))
	o.Expect(requested()).To(ConsistOf("long", "short"))
	left := &v1alpha1.PlacementReviewList{}
	o.Expect(o.api.List(o.ctx, left)).To(Succeed())
	o.Expect(left.Items).To(BeEmpty())
	_, err = o.vdi("", "rebalance", "--max=0")
	o.Expect(err).To(MatchError(ContainSubstring("less than 1")))
}
