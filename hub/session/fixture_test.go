package session_test

import (
	"context"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// Each spec has a hub, a world and members of its own.
var (
	theHub   *hub
	theWorld *world
	agents   map[string]*agent
)

var _ = BeforeEach(func() {
	theWorld, agents = newWorld(), map[string]*agent{}
	theHub = startHub(timings)
})

var _ = AfterEach(func(ctx SpecContext) {
	for _, a := range agents {
		a.disconnect()
	}
	theHub.stop()
	Expect(theWorld.violations()).To(BeEmpty())
	for _, list := range []client.ObjectList{
		&api.VDISessionList{}, &api.MemberClusterList{}, &api.VDITemplateList{}, &api.PlacementPolicyList{}, &api.VDIHomeList{}, &appsv1.ControllerRevisionList{},
	} {
		wipe(ctx, list)
	}
})

func wipe(ctx context.Context, list client.ObjectList) {
	GinkgoHelper()
	Expect(admin.List(ctx, list)).To(Succeed())
	Expect(meta.EachListItem(list, func(o runtime.Object) error {
		object := o.(client.Object)
		if len(object.GetFinalizers()) > 0 {
			Expect(client.IgnoreNotFound(admin.Patch(ctx, object, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))).To(Succeed())
		}
		return client.IgnoreNotFound(admin.Delete(ctx, object))
	})).To(Succeed())
	Eventually(func(g Gomega) {
		g.Expect(admin.List(ctx, list)).To(Succeed())
		g.Expect(meta.LenList(list)).To(BeZero())
	}).Should(Succeed())
}

// join makes a member and connects its agent.
func join(ctx context.Context, name string, change ...func(*agent)) *agent {
	GinkgoHelper()
	mc := &api.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}}}
	mc.Spec.Region, mc.Spec.IngressDomain = name, name+".example.com"
	Expect(admin.Create(ctx, mc)).To(Succeed())
	a := newAgent(name, mc.UID, theWorld)
	for _, f := range change {
		f(a)
	}
	agents[name] = a
	a.connect(theHub)
	Eventually(func(g Gomega) {
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(mc), mc)).To(Succeed())
		g.Expect(meta.IsStatusConditionTrue(mc.Status.Conditions, api.ConditionReady)).To(BeTrue())
	}).Should(Succeed())
	return a
}

func template(ctx context.Context, name string, change ...func(*api.TemplateSpec)) *api.VDITemplate {
	GinkgoHelper()
	t := &api.VDITemplate{ObjectMeta: metav1.ObjectMeta{Name: name}}
	t.Spec.Image, t.Spec.Port = "registry.example.com/"+name+":1", 6901
	t.Spec.Resources.Default = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	for _, f := range change {
		f(&t.Spec)
	}
	Expect(admin.Create(ctx, t)).To(Succeed())
	known(ctx, t)
	return t
}

// known waits until the hub's cache has this generation of a template or policy. Without it, a
// session that is created next may be placed by the older one, since each kind has a watch of
// its own.
func known(ctx context.Context, o client.Object) {
	GinkgoHelper()
	seen := o.DeepCopyObject().(client.Object)
	Eventually(func(g Gomega) {
		g.Expect(theHub.cached.Get(ctx, client.ObjectKeyFromObject(o), seen)).To(Succeed())
		g.Expect(seen.GetGeneration()).To(BeNumerically(">=", o.GetGeneration()))
	}).Should(Succeed())
}

func create(ctx context.Context, namespace, name string, change ...func(*api.SessionSpec)) *api.VDISession {
	GinkgoHelper()
	s := &api.VDISession{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	s.Spec.User, s.Spec.Template = "ann@example.com", "browser"
	for _, f := range change {
		f(&s.Spec)
	}
	Expect(admin.Create(ctx, s)).To(Succeed())
	return s
}

// onlyIn restricts a session to one member.
func onlyIn(member string) func(*api.SessionSpec) {
	return func(s *api.SessionSpec) {
		s.Placement.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"name": member}}
	}
}

// now reads a session.
func now(ctx context.Context, s *api.VDISession) *api.VDISession {
	GinkgoHelper()
	fresh := &api.VDISession{}
	Expect(admin.Get(ctx, client.ObjectKeyFromObject(s), fresh)).To(Succeed())
	return fresh
}

// phase returns the phase and the message of a session, for Eventually.
func phase(ctx context.Context, s *api.VDISession) func(Gomega) string {
	return func(g Gomega) string {
		fresh := &api.VDISession{}
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(s), fresh)).To(Succeed())
		return string(fresh.Status.Phase) + ": " + fresh.Status.Message
	}
}

// reason returns the status of a session's condition, as "Status/Reason", for Eventually.
func reason(ctx context.Context, s *api.VDISession, condition string) func(Gomega) string {
	return func(g Gomega) string {
		fresh := &api.VDISession{}
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(s), fresh)).To(Succeed())
		c := meta.FindStatusCondition(fresh.Status.Conditions, condition)
		if c == nil {
			return ""
		}
		return string(c.Status) + "/" + c.Reason
	}
}

func gone(ctx context.Context, s *api.VDISession) func() bool {
	return func() bool {
		err := admin.Get(ctx, client.ObjectKeyFromObject(s), &api.VDISession{})
		return err != nil && client.IgnoreNotFound(err) == nil
	}
}

// running waits until a session runs, and returns it and its agent.
func running(ctx context.Context, s *api.VDISession) (*api.VDISession, *agent) {
	GinkgoHelper()
	Eventually(phase(ctx, s)).Should(Equal("Running: "))
	fresh := now(ctx, s)
	return fresh, agents[fresh.Status.Placement.ClusterName]
}

// mark returns the current end of the audit log. writesSince counts the hub's writes
// from there on, without leases and events.
func mark() int64 {
	GinkgoHelper()
	m, err := harness.AuditMark(plane.AuditLog())
	Expect(err).NotTo(HaveOccurred())
	return m
}

func writesSince(mark int64) []harness.WriteCount {
	GinkgoHelper()
	counts, err := harness.CountWrites(plane.AuditLog(), harness.CountOptions{Offset: mark, Users: []string{hubUser}})
	Expect(err).NotTo(HaveOccurred())
	return counts
}

// sessionWrites counts the writes that are made for each session.
func sessionWrites(mark int64) []harness.WriteCount {
	GinkgoHelper()
	return slices.DeleteFunc(writesSince(mark), func(c harness.WriteCount) bool {
		return !strings.HasPrefix(c.Resource, "vdisessions") && c.Resource != "vdihomes" && c.Resource != "secrets"
	})
}

// expectFewWrites limits the writes of a session's creation to what docs/design.md,
// section 10 allows, and those of its access secret to one, failed ones included.
func expectFewWrites(mark int64) {
	GinkgoHelper()
	var secrets []harness.WriteCount
	counts := slices.DeleteFunc(sessionWrites(mark), func(c harness.WriteCount) bool {
		if c.Resource == "secrets" {
			secrets = append(secrets, c)
		}
		return c.Resource == "secrets"
	})
	Expect(harness.Total(counts)).To(BeNumerically("<=", 4), "%+v", counts)
	Expect(harness.Total(secrets)).To(BeNumerically("<=", 1), "%+v", secrets)
}

// settled waits until the hub has written nothing for longer than it holds any write
// back.
func settled() {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		at := mark()
		g.Consistently(func() int { return harness.Total(writesSince(at)) }, "2500ms").Should(BeZero())
	}, "30s").Should(Succeed())
}

// edit changes an object as it is now.
func edit(ctx context.Context, o client.Object, change func()) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(o), o)).To(Succeed())
		change()
		g.Expect(admin.Update(ctx, o)).To(Succeed())
	}).Should(Succeed())
	switch o.(type) {
	case *api.VDITemplate, *api.PlacementPolicy:
		known(ctx, o)
	}
}

// replaceHub ends the leader and starts another, to which all agents connect.
func replaceHub() {
	GinkgoHelper()
	for _, a := range agents {
		a.disconnect()
	}
	theHub.stop()
	theHub = startHub(theHub.timings)
	for _, a := range agents {
		a.connect(theHub)
	}
}
