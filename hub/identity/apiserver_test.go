package identity

import (
	"context"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/identity/pki"
	"github.com/vdi-fleet/vdi-fleet/hub/link"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// onAPIServer is an authority over a real API server, with no more rights than
// the hub's role grants; x.api is the administrator's.
func onAPIServer(t *testing.T) *fixture {
	t.Helper()
	x := unprepared(t, noFuncs)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	plane, err := harness.StartControlPlane(ctx, harness.ControlPlaneOptions{
		Name: "hub", APIOnly: true, CRDDirs: []string{"../../deploy/charts/vdi-hub/files/crds"},
		Namespaces: map[string]map[string]string{namespace: nil},
	})
	x.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	x.Expect(plane.ApplyFile(ctx, "../../deploy/charts/vdi-hub/files/rbac.yaml")).To(Succeed())
	admin, err := client.NewWithWatch(plane.Config, client.Options{Scheme: x.api.Scheme()})
	x.Expect(err).NotTo(HaveOccurred())
	role := func(kind string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: "vdi-hub"}
	}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "vdi-hub"}}
	x.Expect(admin.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "vdi-hub"}, RoleRef: role("ClusterRole"), Subjects: subjects,
	})).To(Succeed())
	x.Expect(admin.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "vdi-hub", Namespace: namespace}, RoleRef: role("Role"), Subjects: subjects,
	})).To(Succeed())
	cfg, err := plane.ConfigFor("vdi-hub")
	x.Expect(err).NotTo(HaveOccurred())
	hub, err := client.NewWithWatch(cfg, client.Options{Scheme: x.api.Scheme()})
	x.Expect(err).NotTo(HaveOccurred())
	x.api, x.now = admin, time.Now().Truncate(time.Second)
	options := x.options
	options.Client, options.Live, options.Recorder = hub, hub, events.NewFakeRecorder(100)
	x.Authority = New(options)
	// The role may take a moment to be effective.
	x.Eventually(func() error { return x.Prepare(ctx) }).WithTimeout(20 * time.Second).Should(Succeed())
	return x
}

// joins creates a token for the member, as kubectl does.
func (x *fixture) joins(mc *v1alpha1.MemberCluster, token string) {
	x.Expect(x.api.Create(x.ctx, tokenFor(mc.Name, token, func(s *corev1.Secret) {
		s.UID, s.CreationTimestamp = "", metav1.Time{}
		s.Data[v1alpha1.JoinTokenMemberUID] = []byte(mc.UID)
		s.Data[v1alpha1.JoinTokenExpires] = []byte(x.time().Add(time.Hour).Format(time.RFC3339))
		s.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(mc, v1alpha1.GroupVersion.WithKind("MemberCluster"))}
	}))).To(Succeed())
}

func (x *fixture) create(name string) *v1alpha1.MemberCluster {
	mc := newMember(name, func(mc *v1alpha1.MemberCluster) { mc.UID = "" })
	x.Expect(x.api.Create(x.ctx, mc)).To(Succeed())
	return mc
}

func TestALifeOnARealAPIServer(t *testing.T) {
	x := onAPIServer(t)
	mc := x.create("eu")
	x.joins(mc, token)

	// Ten agents with keys of their own enroll at once, with the same token.
	agents, errs := make([]*agent, 10), make([]error, 10)
	var done sync.WaitGroup
	for i := range agents {
		agents[i] = newAgent(t)
		done.Go(func() {
			_, errs[i] = x.Enroll(x.ctx, agents[i].enrollment(token))
		})
	}
	done.Wait()
	var winner *agent
	for i, err := range errs {
		if err == nil {
			x.Expect(winner).To(BeNil(), "two were enrolled")
			winner = agents[i]
		} else {
			x.Expect(err).To(MatchError(link.ErrToken))
		}
	}
	x.Expect(winner).NotTo(BeNil())

	a := x.enrollsAgain(winner, mc.UID)
	x.Expect(x.Used(x.ctx, a.caller)).To(Succeed())
	written := x.member("eu").ResourceVersion
	x.Expect(x.Used(x.ctx, a.caller)).To(Succeed())
	x.Expect(x.member("eu").ResourceVersion).To(Equal(written))

	secret := x.caSecret()
	secret.Annotations = map[string]string{v1alpha1.AnnotationRotateCA: ""}
	x.Expect(x.api.Update(x.ctx, secret)).To(Succeed())
	x.Expect(x.maintain(x.ctx)).To(Succeed())
	x.Expect(x.maintain(x.ctx)).To(Succeed())
	x.Expect(x.ca.current.Load().state.Stage).To(Equal(pki.StageDistributing))
	x.Expect(x.RotationDue(a.caller, v1alpha1.TrustBundleHash(a.bundle))).To(BeTrue())

	x.setAccess("eu", v1alpha1.AccessRevoked)
	x.reviewAccess("eu")
	revoked := x.member("eu")
	x.Expect(revoked.Status.Certificate).NotTo(BeNil(), "an API server keeps what is empty and not nil")
	x.Expect(revoked.Status.Certificate.Serials()).To(BeEmpty())
	x.Expect(x.api.Get(x.ctx, client.ObjectKey{Namespace: namespace, Name: "join-" + tokenID}, &corev1.Secret{})).NotTo(Succeed())
	x.Expect(x.maintain(x.ctx)).To(Succeed())
	x.Expect(x.ca.current.Load().state.Stage).To(Equal(pki.StageReissuing), "members without a certificate are not waited for")
}

// enrollsAgain is an agent that did not get its answer.
func (x *fixture) enrollsAgain(a *agent, member types.UID) *agent {
	got, err := x.Enroll(x.ctx, a.enrollment(token))
	x.Expect(err).NotTo(HaveOccurred())
	x.takesAs(a, member, got)
	return a
}
