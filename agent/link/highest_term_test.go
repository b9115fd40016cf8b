package link

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// stored has the stored terms, while the member's API server is reachable.
type stored struct {
	mu    sync.Mutex
	away  bool
	terms []HubTerm
}

func (s *stored) Begin(context.Context) (int64, HubTerm, error) { return 1, HubTerm{}, nil }

func (s *stored) Observe(_ context.Context, term HubTerm) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return errors.New("away")
	}
	s.terms = append(s.terms, term)
	return nil
}

func (s *stored) all() []HubTerm {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]HubTerm(nil), s.terms...)
}

func TestATermInARenewalIsReportedAtOnceAndStored(t *testing.T) {
	g := NewWithT(t)
	kept := &stored{away: true}
	s := &stream{
		Client: &Client{member: Member{Terms: kept}}, renewed: make(chan struct{}, 1),
		hello: &fleetv1.Hello{HighestHubTerm: 4, HighestHubTermProof: "four"},
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.storeTerms(ctx) }()
	for _, term := range []HubTerm{{4, "four"}, {5, "five"}, {3, "three"}, {6, ""}, {7, "seven"}} {
		s.observeRenewal(term) // and does not wait for the member's API server
	}
	g.Expect(s.highest()).To(Equal(HubTerm{7, "seven"}))
	g.Expect(s.hello.GetHighestHubTerm()).To(Equal(int64(7)), "the next connection reports it")
	kept.mu.Lock()
	kept.away = false
	kept.mu.Unlock()
	g.Eventually(func() HubTerm {
		all := append([]HubTerm{{}}, kept.all()...)
		return all[len(all)-1]
	}).WithTimeout(20 * time.Second).Should(Equal(HubTerm{7, "seven"}))
	g.Expect(kept.all()).NotTo(ContainElement(HaveField("Proof", "")), "a term without a proof proves nothing")
	cancel()
	g.Expect(<-done).To(MatchError(context.Canceled))
}
