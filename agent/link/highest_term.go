package link

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/log"
)

// raise makes a term the highest that this process has seen, if it supersedes that, and
// reports whether it did.
func (s *stream) raise(term HubTerm) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !term.supersedes(HubTerm{s.hello.GetHighestHubTerm(), s.hello.GetHighestHubTermProof()}) {
		return false
	}
	s.hello.HighestHubTerm, s.hello.HighestHubTermProof = term.Term, term.Proof
	return true
}

// highest returns the highest term that this process has seen.
func (s *stream) highest() HubTerm {
	s.mu.Lock()
	defer s.mu.Unlock()
	return HubTerm{s.hello.GetHighestHubTerm(), s.hello.GetHighestHubTermProof()}
}

// note takes the term of a renewal, which grows while the hub gives orders. One without a
// proof is ignored: it is an older hub's. No renewal waits until it is stored.
func (s *stream) note(term HubTerm) {
	if term.Proof == "" || !s.raise(term) {
		return
	}
	for {
		select {
		case s.renewed <- term:
			return
		default:
		}
		select {
		case <-s.renewed: // a lower one
		default:
		}
	}
}

// storeTerms stores the terms of renewals for the next process of the agent. While the
// member's API server is away it retries.
func (s *stream) storeTerms(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case term := <-s.renewed:
			untilDone(ctx, func() error {
				err := s.member.Terms.Observe(ctx, term)
				if err != nil {
					log.FromContext(ctx).V(1).Info("The hub's term is not stored yet, will retry", "term", term.Term, "reason", err.Error())
				}
				return err
			})
		}
	}
}
