package member

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
)

func revoked(mc *v1alpha1.MemberCluster) {
	mc.Generation++
	mc.Spec.Access = v1alpha1.AccessRevoked
}

func TestRevokedMemberIsCutOffAtOnce(t *testing.T) {
	x := newFixture(t)
	x.register("eu", "uid-eu")
	old, p := x.connect("uid-eu", "i1", item("a", 1, active))
	x.renew("uid-eu", "i1")
	x.changes.take()

	x.register("eu", "uid-eu", revoked)
	x.Expect(p.closed).To(MatchError(link.ErrRevoked), "before Register returns")
	x.Expect(x.State("uid-eu").Health).To(Equal(health.Unreachable))
	x.Expect(x.cluster("eu")()).To(MatchError(multicluster.ErrClusterNotFound))
	x.Expect(x.changes.take()).To(ContainElement(Change{Kind: MemberChanged, Member: "eu", UID: "uid-eu"}), "its sessions are reconciled")
	access, ok := x.Access("uid-eu")
	x.Expect(ok).To(BeTrue())
	x.Expect(access.Revoked).To(BeTrue())
	_, err := x.Renew("uid-eu", link.Renewal{Instance: "i1"})
	x.Expect(err).To(MatchError(link.ErrRevoked))
	_, _, err = x.open("uid-eu", "i1")
	x.Expect(err).To(MatchError(link.ErrRevoked))
	old.Closed(link.ErrRevoked)
	old.Changes(reportsOf(item("b", 1, active)))
	x.Expect(x.shown("uid-eu")).To(HaveLen(1), "its reports do not count any more")

	x.register("eu", "uid-eu", func(mc *v1alpha1.MemberCluster) { mc.Generation = 3 })
	x.Expect(x.State("uid-eu").Health).To(Equal(health.Unreachable), "until it sends a hello again")
	_, err = x.Renew("uid-eu", link.Renewal{Instance: "i1"})
	x.Expect(err).To(MatchError(link.ErrNotConnected))
	x.connect("uid-eu", "i1")
	x.Expect(x.State("uid-eu").Health).To(Equal(health.Ready), "what an operator did is not held against it")
}

func TestRevokedMemberLosesItsCertificatePermanently(t *testing.T) {
	object := newMemberObject("eu")
	x := newControllers(t, object)
	ctx := context.Background()
	get := func() *v1alpha1.MemberCluster {
		mc := &v1alpha1.MemberCluster{}
		x.Expect(x.c.Get(ctx, client.ObjectKeyFromObject(object), mc)).To(Succeed())
		return mc
	}
	access := func(a v1alpha1.MemberAccess) {
		mc := get()
		mc.Spec.Access = a
		mc.Generation++
		x.Expect(x.c.Update(ctx, mc)).To(Succeed())
		x.reconcile("eu")
	}
	x.reconcile("eu")
	mc := get()
	expires := metav1.NewTime(x.clock.Now().Add(24 * time.Hour))
	mc.Status.Certificate = &v1alpha1.MemberCertificate{Serial: "a1", NotAfter: &expires, NextSerial: "b2"}
	x.Expect(x.c.Status().Update(ctx, mc)).To(Succeed())
	x.reconcile("eu")
	granted, _ := x.Access("uid-eu")
	x.Expect(granted.Serials).To(Equal([]string{"a1", "b2"}))

	access(v1alpha1.AccessRevoked)
	x.Expect(get().Status.Certificate).To(Equal(&v1alpha1.MemberCertificate{}))
	x.Expect(x.shows(get())).To(Equal([]string{"Ready=False/Revoked", "Enrolled=False/Revoked", "Connected=False/NeverConnected", "Synced=Unknown/NotConnected"}))
	writes := x.writes
	x.reconcile("eu")
	x.Expect(x.writes).To(Equal(writes))

	access(v1alpha1.AccessAllowed)
	granted, _ = x.Access("uid-eu")
	x.Expect(granted.Revoked).To(BeFalse())
	x.Expect(granted.Serials).NotTo(BeNil(), "nil would admit any")
	x.Expect(granted.Serials).To(BeEmpty(), "what it had before is not valid again")
	x.Expect(x.shows(get())).To(ContainElement("Enrolled=False/AwaitingAgent"))
	revocations := 0
	for range len(x.recorder.Events) {
		if e := <-x.recorder.Events; e[:len("Warning Revoked")] == "Warning Revoked" {
			revocations++
		}
	}
	x.Expect(revocations).To(Equal(1), "reported once")
}

func TestRevokedMemberWithExternallyIssuedCertificates(t *testing.T) {
	x := newControllers(t, newMemberObject("eu"))
	mc := newMemberObject("eu")
	revoked(mc)
	x.Register(mc)
	v, _ := x.viewOf("eu")
	status := &v1alpha1.MemberClusterStatus{}
	writeStatus(status, v, 1)
	x.Expect(status.Certificate).To(BeNil(), "their issuer goes on deciding on them")
}

// A cache that lags behind a write must not remove a certificate again; but the state of a
// restored API server is accepted after cacheLag.
func TestStaleCacheRemovesNoCertificate(t *testing.T) {
	x := newFixture(t)
	serial := func(version, serial string) func(*v1alpha1.MemberCluster) {
		return func(mc *v1alpha1.MemberCluster) {
			mc.ResourceVersion = version
			mc.Status.Certificate = &v1alpha1.MemberCertificate{Serial: serial}
		}
	}
	serials := func() []string {
		access, _ := x.Access("uid-eu")
		return access.Serials
	}
	x.register("eu", "uid-eu", serial("9", "old"))
	written := x.register("eu", "uid-eu", serial("10", "new"))
	lagging := written.DeepCopy()
	serial("9", "old")(lagging)
	x.Expect(x.Register(lagging)).To(BeFalse())
	x.Expect(serials()).To(Equal([]string{"new"}))
	x.Expect(x.Register(written)).To(BeTrue(), "the same again is no harm")
	x.clock.Step(cacheLag)
	x.Expect(x.Register(lagging)).To(BeTrue())
	x.Expect(serials()).To(Equal([]string{"old"}))
}
