package identity

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/vdi-fleet/vdi-fleet/agent/link"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// bare is a member without assignments.
type bare struct{}

func (bare) List(context.Context) ([]link.InventoryItem, error) { return nil, nil }
func (bare) Render(link.Ref) *fleetv1.AssignmentReport          { return nil }
func (bare) Put(*fleetv1.Order)                                 {}
func (bare) Report() *fleetv1.CapacityReport                    { return nil }
func (bare) NextSequence() uint64                               { return 1 }
func (bare) SetTemplates(*fleetv1.TemplateSet)                  {}
func (bare) Begin(context.Context) (agent int64, hub link.HubTerm, err error) {
	return 1, link.HubTerm{}, nil
}
func (bare) Sending() func(time.Duration)                { return func(time.Duration) {} }
func (bare) Observe(context.Context, link.HubTerm) error { return nil }

func TestTheLinkReconnectsWithTheNextCertificateWhenTheHubRequestsIt(t *testing.T) {
	g := NewWithT(t)
	m := newMember(t, startHub(t))
	k := m.start()
	client := link.NewClient(link.Options{
		HubAddress: m.options.HubAddress, HubServerName: m.options.HubServerName, Credentials: k,
		Instance: "agent-1", TimeFactor: 0.02, Leading: func() bool { return true },
	}, link.Member{
		Assignments: bare{}, Orders: bare{}, Capacity: bare{}, Terms: bare{}, Lease: bare{},
		Fingerprint: func(context.Context) (string, error) { return "kube-system's", nil },
		Synced:      func(context.Context) bool { return true },
	})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- k.Start(ctx) }()
	go func() { ended <- client.Start(ctx) }()
	t.Cleanup(func() { stop(); g.Expect(<-ended).To(Succeed()); g.Expect(<-ended).To(Succeed()) })

	seen := func() (serial string, letIn int) {
		m.hub.set(func() { serial, letIn = m.hub.serial, m.hub.letIn })
		return serial, letIn
	}
	for round := 1; round <= 3; round++ {
		var before string
		g.Eventually(func() int {
			var letIn int
			before, letIn = seen()
			return letIn
		}).WithTimeout(10 * time.Second).Should(BeNumerically(">=", round))
		m.hub.set(func() { m.hub.rotate = true })
		g.Eventually(func() string { serial, _ := seen(); return serial }).WithTimeout(10 * time.Second).ShouldNot(Equal(before))
	}
	m.hub.set(func() {
		g.Expect(m.hub.turnedAway).To(BeZero(), "no connection was tried with a certificate that was not valid")
		delete(m.hub.bundles, "")
		g.Expect(m.hub.bundles).To(HaveKey(v1alpha1.TrustBundleHash(m.hub.ca.pem())))
		g.Expect(m.hub.bundles).To(HaveLen(1))
	})
}
