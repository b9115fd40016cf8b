package retention_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/vdi-fleet/vdi-fleet/agent/retention"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

const namespace = "desktops"

// memberClock is a wall clock that may be set, with a separate monotonic time.
type memberClock struct {
	wall    time.Time
	process time.Duration
	read    map[time.Time]time.Duration
}

func (c *memberClock) Now() time.Time {
	c.read[c.wall] = c.process
	return c.wall
}
func (c *memberClock) Since(t time.Time) time.Duration { return c.process - c.read[t] }

func (c *memberClock) pass(d time.Duration) {
	c.wall = c.wall.Add(d)
	c.process += d
}

func startMember(t *testing.T) (*harness.ControlPlane, client.Client) {
	t.Helper()
	g := NewWithT(t)
	root, err := harness.Root()
	g.Expect(err).NotTo(HaveOccurred())
	member, err := harness.StartControlPlane(t.Context(), harness.ControlPlaneOptions{
		APIOnly: true, CRDDirs: []string{filepath.Join(root, "deploy/charts/vdi-agent/files/crds")},
		Namespaces: map[string]map[string]string{namespace: nil},
	})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(member.Stop()).To(Succeed()) })
	scheme := runtime.NewScheme()
	g.Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	g.Expect(api.AddToScheme(scheme)).To(Succeed())
	admin, err := client.New(member.Config, client.Options{Scheme: scheme})
	g.Expect(err).NotTo(HaveOccurred())
	return member, admin
}

// claim was last used now, and is kept for an hour after that.
func claim(name string, changes ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name,
		Labels: map[string]string{api.LabelManagedBy: api.ManagedBy},
		Annotations: map[string]string{
			api.AnnotationLastUse:   time.Now().UTC().Format(time.RFC3339),
			api.AnnotationRetention: "1h",
		},
	}}
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	for _, change := range changes {
		change(c)
	}
	return c
}

func annotated(key, value string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		if value == "" {
			delete(c.Annotations, key)
			return
		}
		c.Annotations[key] = value
	}
}

func assignmentWith(claim string) *api.SessionAssignment {
	a := &api.SessionAssignment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "desk-" + claim}}
	a.Spec = api.SessionAssignmentSpec{
		Session: api.SessionReference{Namespace: "users", Name: "desk", UID: types.UID("uid-" + claim)},
		Epoch:   1, User: "ada", Template: "desk", TemplateRevision: "r1", RunState: api.ModeSuspended, Host: "h.example.com",
		Desktop: api.Desktop{Image: "i", Port: 80, Home: api.AssignedHome{Mode: api.HomePerUser, ClaimName: claim}},
	}
	return a
}

// keeper is the reconciler of one claim, at a clock that a test sets.
type keeper struct {
	*retention.Reconciler
	*WithT
	t      *testing.T
	clock  *memberClock
	admin  client.Client
	claim  *corev1.PersistentVolumeClaim
	events *events.FakeRecorder
}

func keep(t *testing.T, admin client.Client, c *corev1.PersistentVolumeClaim) *keeper {
	t.Helper()
	k := &keeper{WithT: NewWithT(t), t: t, admin: admin, claim: c, events: events.NewFakeRecorder(10),
		clock: &memberClock{wall: time.Now(), read: map[time.Time]time.Duration{}}}
	k.Reconciler = retention.Homes(retention.Options{Client: admin, Live: admin, Recorder: k.events, Clock: k.clock, OverdueFor: time.Minute})
	k.Expect(admin.Create(t.Context(), c)).To(Succeed())
	return k
}

// reconcile reconciles the claim, and returns after how long it is due again.
func (k *keeper) reconcile() time.Duration {
	k.t.Helper()
	result, err := k.Reconcile(k.t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(k.claim)})
	k.Expect(err).NotTo(HaveOccurred())
	return result.RequeueAfter
}

func (k *keeper) kept() bool { return there(k.t.Context(), k.WithT, k.admin, k.claim.Name) }

// there reports whether a claim exists, and is not deleted: its protection
// may keep it for a while.
func there(ctx context.Context, g *WithT, admin client.Client, name string) bool {
	have := &corev1.PersistentVolumeClaim{}
	err := admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, have)
	g.Expect(client.IgnoreNotFound(err)).To(Succeed())
	return !apierrors.IsNotFound(err) && have.DeletionTimestamp == nil
}

func TestRetention(t *testing.T) {
	member, admin := startMember(t)
	t.Run("of objects that desktops share", func(t *testing.T) { testSharedObjects(t, member, admin) })

	t.Run("deletes a home once it was kept long enough, at the second pass", func(t *testing.T) {
		k := keep(t, admin, claim("overdue"))
		k.Expect(k.reconcile()).To(BeNumerically("~", time.Hour, time.Minute))
		k.clock.pass(time.Hour + time.Minute)
		k.Expect(k.reconcile()).To(Equal(time.Minute))
		k.Expect(k.kept()).To(BeTrue(), "at the first pass")
		k.clock.pass(30 * time.Second)
		k.Expect(k.reconcile()).To(Equal(30 * time.Second))
		k.Expect(k.kept()).To(BeTrue(), "too soon")
		k.clock.pass(30 * time.Second)
		k.Expect(k.reconcile()).To(BeZero())
		k.Expect(k.kept()).To(BeFalse())
		k.Expect(k.events.Events).To(Receive(ContainSubstring(api.EventHomeDeleted)))
	})

	t.Run("reconciles once an hour one that is kept for long", func(t *testing.T) {
		k := keep(t, admin, claim("long", annotated(api.AnnotationRetention, "9000h")))
		k.Expect(k.reconcile()).To(Equal(time.Hour))
	})

	t.Run("keeps a home over a clock that jumps", func(t *testing.T) {
		k := keep(t, admin, claim("jump"))
		k.clock.wall = k.clock.wall.AddDate(5, 0, 0)
		k.Expect(k.reconcile()).To(Equal(time.Minute))
		k.clock.wall = k.clock.wall.AddDate(5, 0, 0)
		k.Expect(k.reconcile()).To(Equal(time.Minute), "no time has passed")
		k.clock.wall = time.Now()
		k.clock.pass(time.Minute)
		k.Expect(k.reconcile()).To(BeNumerically(">", 50*time.Minute), "it is right again")
		k.clock.pass(2 * time.Hour)
		k.Expect(k.reconcile()).To(Equal(time.Minute), "what was observed before counts")
		k.Expect(k.kept()).To(BeTrue())
	})

	t.Run("keeps what must be kept", func(t *testing.T) {
		yesterday := time.Now().Add(-24 * time.Hour).UTC().Format(time.RFC3339)
		for i, change := range []func(*corev1.PersistentVolumeClaim){
			annotated(api.AnnotationLastUse, ""),
			annotated(api.AnnotationLastUse, "yesterday"),
			annotated(api.AnnotationLastUse, "1700000000"),
			annotated(api.AnnotationRetention, ""),
			annotated(api.AnnotationRetention, "soon"),
			annotated(api.AnnotationRetention, "-1h"),
			annotated(api.AnnotationRetention, "1d"),
			func(c *corev1.PersistentVolumeClaim) { c.Labels[api.LabelManagedBy] = "another" },
			func(c *corev1.PersistentVolumeClaim) { c.Labels = nil },
		} {
			k := keep(t, admin, claim(fmt.Sprintf("kept-%d", i), annotated(api.AnnotationLastUse, yesterday), change))
			for range 3 {
				k.clock.pass(100 * time.Hour)
				k.Expect(k.reconcile()).To(BeZero(), k.claim.Name)
			}
			k.Expect(k.kept()).To(BeTrue(), k.claim.Name)
		}
	})

	t.Run("does not accept that a home was last used before it was created", func(t *testing.T) {
		k := keep(t, admin, claim("unset", annotated(api.AnnotationLastUse, "1970-01-01T00:00:07Z")))
		k.Expect(k.reconcile()).To(BeNumerically("~", time.Hour, time.Minute))
	})

	t.Run("keeps a home that an assignment names, though its mark is left", func(t *testing.T) {
		k := keep(t, admin, claim("used"))
		user := assignmentWith("used")
		k.clock.pass(2 * time.Hour)
		k.Expect(k.reconcile()).To(Equal(time.Minute))
		k.Expect(admin.Create(t.Context(), user)).To(Succeed())
		k.clock.pass(time.Minute)
		k.reconcile()
		k.Expect(k.kept()).To(BeTrue())
		k.Expect(admin.Delete(t.Context(), user)).To(Succeed())
		k.clock.pass(time.Hour)
		k.Expect(k.reconcile()).To(Equal(time.Minute), "unused for a minute, again")
		k.Expect(k.kept()).To(BeTrue())
	})

	t.Run("reads from the API server what uses it before it deletes", func(t *testing.T) {
		k := keep(t, admin, claim("lag"))
		k.Client = withoutAssignments{admin}
		k.Expect(admin.Create(t.Context(), assignmentWith("lag"))).To(Succeed())
		k.clock.pass(2 * time.Hour)
		k.reconcile()
		k.clock.pass(time.Minute)
		k.reconcile()
		k.Expect(k.kept()).To(BeTrue())
	})

	t.Run("restarts with a home that was used meanwhile, or is another of that name", func(t *testing.T) {
		k := keep(t, admin, claim("again"))
		k.clock.pass(2 * time.Hour)
		k.reconcile()
		k.claim.Annotations[api.AnnotationRetention] = "90m"
		k.Expect(admin.Update(t.Context(), k.claim)).To(Succeed())
		k.clock.pass(time.Minute)
		k.Expect(k.reconcile()).To(Equal(time.Minute))
		k.Expect(k.kept()).To(BeTrue())
	})

	t.Run("runs under a manager", func(t *testing.T) {
		g := NewWithT(t)
		mgr, err := ctrl.NewManager(member.Config, ctrl.Options{
			Scheme: admin.Scheme(), Metrics: server.Options{BindAddress: "0"},
			Controller: config.Controller{SkipNameValidation: ptr.To(true)}, // of other tests in this process
		})
		g.Expect(err).NotTo(HaveOccurred())
		options := retention.Options{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("vdi-agent"), Clock: clock.RealClock{},
			OverdueFor: 10 * time.Millisecond,
		}
		g.Expect(retention.SetupWithManager(mgr, options)).To(Succeed())
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- mgr.Start(ctx) }()
		defer func() { stop(); g.Expect(<-ended).To(Succeed()) }()
		g.Expect(admin.Create(t.Context(), claim("kept"))).To(Succeed())
		g.Expect(admin.Create(t.Context(), claim("expired", annotated(api.AnnotationRetention, "1s")))).To(Succeed())
		g.Eventually(func() bool { return there(t.Context(), g, admin, "expired") }).WithTimeout(20 * time.Second).Should(BeFalse())
		g.Expect(there(t.Context(), g, admin, "kept")).To(BeTrue())
	})
}

// withoutAssignments is a cache that does not show them yet.
type withoutAssignments struct{ client.Client }

func (w withoutAssignments) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, assignments := list.(*api.SessionAssignmentList); assignments {
		return nil
	}
	return w.Client.List(ctx, list, opts...)
}
