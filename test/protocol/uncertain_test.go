package protocol

import (
	"errors"
	"testing"

	. "github.com/onsi/gomega"

	agentlink "github.com/vdi-fleet/vdi-fleet/agent/link"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// TestAnAgentThatIsNotCertainToLeadReportsItAndYieldsToAnother ends, on the hub, the stream of
// an agent that cannot confirm its leadership.
func TestAnAgentThatIsNotCertainToLeadReportsItAndYieldsToAnother(t *testing.T) {
	g := patient(t)
	dir := newDirectory("m1")
	h := startHub(t, dir)
	m1 := dir.of("m1")
	uncertain := func() bool { return get(m1, func(r *record) bool { return r.uncertain }) }
	files := agentFiles(t, h, "m1")
	client := agentlink.NewClient(agentlink.Options{
		HubAddress: h.address, HubServerName: "localhost", Credentials: certificates(files),
		Instance: "i1", TimeFactor: 0.01, Leading: func() bool { return false },
	}, (&agentProcess{member: newMember()}).asMember())
	ended := make(chan error, 1)
	go func() { ended <- client.Start(t.Context()) }()
	g.Eventually(uncertain).Should(BeTrue())
	g.Consistently(ended, "300ms").ShouldNot(Receive(), "it continues while no other agent connects")

	m1.mu.Lock()
	incumbent := m1.peer
	m1.peer, m1.hello = idlePeer{}, &fleetv1.Hello{Instance: "i2"}
	m1.mu.Unlock()
	incumbent.Close(errors.New("replaced"))
	g.Eventually(ended).Should(Receive(MatchError(agentlink.ErrSuperseded)))
}

func TestAnAgentThatIsCertainToLeadOutlastsAnotherWithItsCredentials(t *testing.T) {
	g := patient(t)
	dir := newDirectory("m1")
	h := startHub(t, dir)
	m1 := dir.of("m1")
	m1.mu.Lock()
	m1.peer, m1.hello = idlePeer{}, &fleetv1.Hello{Instance: "clone"}
	m1.mu.Unlock()
	startAgent(t, h, agentFiles(t, h, "m1"), "i1")
	g.Consistently(func() string { return get(m1, func(r *record) string { return r.hello.Instance }) }, "300ms").Should(Equal("clone"))
	m1.mu.Lock()
	m1.peer = nil
	m1.mu.Unlock()
	g.Eventually(func() string { return get(m1, func(r *record) string { return r.hello.Instance }) }).Should(Equal("i1"))
	g.Expect(get(m1, func(r *record) bool { return r.uncertain })).To(BeFalse())
}
