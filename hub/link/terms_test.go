package link_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/hub/link"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// restoredHub has a term that it raises, unless it fails to.
type restoredHub struct {
	*world
	term, raised atomic.Int64
	fails        atomic.Bool
}

func serveRestored(t *testing.T, term int64, changes ...func(*link.Options)) *restoredHub {
	h := &restoredHub{}
	h.term.Store(term)
	h.world = serve(t, func(o *link.Options) {
		for _, change := range changes {
			change(o)
		}
		o.Term.Current, o.Term.Proof = h.term.Load, termProof
		o.Term.Raise = func(_ context.Context, seen int64) error {
			if h.fails.Load() {
				return errors.New("etcd is away")
			}
			h.raised.Add(1)
			h.term.Store(max(seen, h.term.Load()) + 1)
			return nil
		}
	})
	h.do(func() { h.standing["other"] = link.Access{} })
	return h
}

func termProof(member types.UID, term int64) string { return fmt.Sprint("proof-", member, "-", term) }

// seen is what an agent gets that has seen a hub of a term, and proves it: the
// term of its Welcome.
func (h *restoredHub) seen(t *testing.T, uid string, term int64) (int64, error) {
	t.Helper()
	return h.claims(t, uid, term, termProof(types.UID(uid), term))
}

// renewed is the term that a renewal of the agent brings.
func (h *restoredHub) renewed(t *testing.T, uid string) int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	answer, err := h.client(h.agent(uid)).RenewLease(ctx, &fleetv1.RenewLeaseRequest{Instance: "i-1"})
	if err != nil {
		t.Fatal(err)
	}
	if answer.GetHubTermProof() != termProof(types.UID(uid), answer.GetHubTerm()) {
		t.Errorf("term %d comes with proof %q", answer.GetHubTerm(), answer.GetHubTermProof())
	}
	return answer.GetHubTerm()
}

func (h *restoredHub) claims(t *testing.T, uid string, term int64, proof string) (int64, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	stream, err := h.client(h.agent(uid)).Connect(ctx)
	if err != nil {
		return 0, err
	}
	first := hello()
	first.GetHello().HighestHubTerm, first.GetHello().HighestHubTermProof = term, proof
	if err := stream.Send(first); err != nil {
		t.Fatal(err)
	}
	answer, err := stream.Recv()
	if err != nil {
		return 0, err
	}
	_, isWelcome := answer.GetMessage().(*fleetv1.ConnectResponse_Welcome)
	if !isWelcome {
		t.Fatalf("the first message is %v", answer)
	}
	if w := answer.GetWelcome(); w.GetHubTermProof() != termProof(types.UID(uid), w.GetHubTerm()) {
		t.Errorf("term %d comes with proof %q", w.GetHubTerm(), w.GetHubTermProof())
	}
	return answer.GetWelcome().GetHubTerm(), nil
}

func TestRestoredHubRaisesItsTermAndAdmitsTheAgentAtItsNextAttempt(t *testing.T) {
	g := NewWithT(t)
	h := serveRestored(t, 3)
	_, err := h.seen(t, "own", 6)
	g.Expect(status.Code(err)).To(Equal(codes.FailedPrecondition))
	g.Expect(err).To(MatchError(ContainSubstring("has term 7 now")))
	g.Expect(h.has("own")).To(BeFalse())
	g.Expect(h.seen(t, "own", 6)).To(Equal(int64(7)))
	g.Expect(h.seen(t, "other", 7)).To(Equal(int64(7)), "an agent that has seen its present term raises nothing")
	g.Expect(h.raised.Load()).To(Equal(int64(1)))
}

// Between the backup and its restore there was one leader more: the next one has
// its term.
func TestRestoredHubOfTheTermThatAnAgentHasSeenIsDetected(t *testing.T) {
	g := NewWithT(t)
	h := serveRestored(t, 3, func(o *link.Options) { o.Term.First = func() int64 { return 3 } })
	g.Expect(h.seen(t, "other", 2)).To(Equal(int64(3)), "it was away meanwhile")
	g.Expect(h.seen(t, "other", 3)).To(Equal(int64(3)), "it got its term from this hub, and connects again")
	g.Expect(h.raised.Load()).To(BeZero())

	_, err := h.seen(t, "own", 3)
	g.Expect(status.Code(err)).To(Equal(codes.FailedPrecondition))
	g.Expect(err).To(MatchError(ContainSubstring("has term 4 now")))
	g.Expect(h.has("own")).To(BeFalse(), "not admitted before the term is raised")
	g.Expect(h.seen(t, "own", 3)).To(Equal(int64(4)))
	g.Expect(h.seen(t, "own", 4)).To(Equal(int64(4)))
	g.Expect(h.seen(t, "other", 3)).To(Equal(int64(4)))
	g.Expect(h.raised.Load()).To(Equal(int64(1)))
}

// An agent that claims a later hub and does not prove it raises nothing, and is
// refused with what to do: it may be one of before terms were proven, or the hub's
// key was lost.
func TestAClaimOfALaterHubThatIsNotProvenRaisesNothing(t *testing.T) {
	g := NewWithT(t)
	h := serveRestored(t, 3, func(o *link.Options) { o.Term.First = func() int64 { return 3 } })
	for _, claim := range []struct {
		term  int64
		proof string
	}{
		{6, ""}, {6, "invented"}, {6, termProof("other", 6)}, {6, termProof("own", 2)},
		{3, ""}, // this leader's term, which this leader never sent to it
	} {
		_, err := h.claims(t, "own", claim.term, claim.proof)
		g.Expect(status.Code(err)).To(Equal(codes.FailedPrecondition))
		g.Expect(err).To(MatchError(And(ContainSubstring(link.ErrUnprovenTerm.Error()), ContainSubstring("vdi-hub-placement-key"), ContainSubstring("vdi-agent-state"))))
	}
	g.Expect(h.raised.Load()).To(BeZero())
	g.Expect(h.term.Load()).To(Equal(int64(3)))
	h.do(func() {
		g.Expect(h.refused["own"]).To(MatchError(link.ErrUnprovenTerm), "and its MemberCluster shows it")
	})
	g.Expect(h.seen(t, "other", 2)).To(Equal(int64(3)), "no other agent is affected")
	g.Expect(h.claims(t, "own", 2, "")).To(Equal(int64(3)), "an agent of before terms were proven needs no proof otherwise")
}

func TestHubThatIsNotCertainToLeadRaisesNothing(t *testing.T) {
	g := NewWithT(t)
	h := serveRestored(t, 3)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	stream, err := h.client(h.agent("own")).Connect(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	// It is accepted as far as Hello, and then another hub takes over.
	g.Eventually(func() (n int) { h.do(func() { n = len(h.used) }); return n }).WithTimeout(20 * time.Second).Should(Equal(1))
	h.do(func() { h.following = true })
	first := hello()
	first.GetHello().HighestHubTerm, first.GetHello().HighestHubTermProof = 6, termProof("own", 6)
	g.Expect(stream.Send(first)).To(Succeed())
	_, err = stream.Recv()
	g.Expect(status.Code(err)).To(Equal(codes.Unavailable))
	g.Expect(err).To(MatchError(ContainSubstring(link.ErrNotLeading.Error())))
	g.Expect(h.raised.Load()).To(BeZero())
}

func TestOneAgentCannotUseTheTermsUp(t *testing.T) {
	g := NewWithT(t)
	h := serveRestored(t, 3)
	_, err := h.seen(t, "own", 3+1<<27+1)
	g.Expect(status.Code(err)).To(Equal(codes.FailedPrecondition))
	g.Expect(h.term.Load()).To(Equal(int64(3)), "no hub has had such a term")
	g.Expect(h.seen(t, "other", 3)).To(Equal(int64(3)), "no other agent is refused for it")

	_, err = h.seen(t, "own", 3+1<<27)
	g.Expect(err).To(MatchError(ContainSubstring("at its next attempt")))
	_, err = h.seen(t, "own", h.term.Load()+1)
	g.Expect(err).To(MatchError(ContainSubstring("is not raised again")))
	_, err = h.seen(t, "other", h.term.Load()+1)
	g.Expect(err).To(MatchError(ContainSubstring("at its next attempt")), "that was another's")
	g.Expect(h.raised.Load()).To(Equal(int64(2)))
}

func TestARaiseThatFailedIsTriedAgain(t *testing.T) {
	g := NewWithT(t)
	h := serveRestored(t, 3)
	h.fails.Store(true)
	_, err := h.seen(t, "own", 6)
	g.Expect(status.Code(err)).To(Equal(codes.Unavailable))
	g.Expect(err).NotTo(MatchError(ContainSubstring("etcd")), "that is the hub's own business")
	h.fails.Store(false)
	_, err = h.seen(t, "own", 6)
	g.Expect(err).To(MatchError(ContainSubstring("at its next attempt")))
	g.Expect(h.seen(t, "own", 6)).To(Equal(int64(7)))
}

// No leader has changed since the backup: the restored hub's first leader has assigned
// orders already, and so has passed the term that the agent has.
func TestRestoredHubWhoseTermHasGrownPastAnAgentsIsDetected(t *testing.T) {
	g := NewWithT(t)
	h := serveRestored(t, 3, func(o *link.Options) { o.Term.First = func() int64 { return 3 } })
	g.Expect(h.seen(t, "other", 2)).To(Equal(int64(3)))
	h.term.Store(9)
	g.Expect(h.claims(t, "own", 5, "invented")).To(Equal(int64(9)), "what is not proven shows nothing, and keeps no agent out")
	g.Expect(h.raised.Load()).To(BeZero())

	h = serveRestored(t, 9, func(o *link.Options) { o.Term.First = func() int64 { return 3 } })
	_, err := h.seen(t, "own", 5)
	g.Expect(status.Code(err)).To(Equal(codes.FailedPrecondition))
	g.Expect(err).To(MatchError(ContainSubstring("admitted at its next attempt")))
	g.Expect(h.raised.Load()).To(Equal(int64(1)))
	g.Expect(h.seen(t, "other", 6)).To(Equal(h.term.Load()), "the restore is detected by now")
	g.Expect(h.seen(t, "own", 5)).To(Equal(h.term.Load()))
	g.Expect(h.raised.Load()).To(Equal(int64(1)))
}

func TestTermOfARenewalIsThisHubs(t *testing.T) {
	g := NewWithT(t)
	h := serveRestored(t, 3, func(o *link.Options) { o.Term.First = func() int64 { return 3 } })
	g.Expect(h.seen(t, "own", 2)).To(Equal(int64(3)))
	h.term.Store(5)
	g.Expect(h.renewed(t, "own")).To(Equal(int64(5)))
	g.Expect(h.seen(t, "own", 5)).To(Equal(int64(5)))
	h.term.Store(7)
	g.Expect(h.seen(t, "own", 5)).To(Equal(int64(7)))
	g.Expect(h.raised.Load()).To(BeZero())
}
