package pki

import (
	"crypto/x509"
	"slices"
	"time"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// RotateBefore is how long before the CA's end its rotation begins by itself.
const RotateBefore = 365 * 24 * time.Hour

// Step is what is to be done with the CA.
type Step string

// The steps.
const (
	// StepNone: nothing, or not yet.
	StepNone Step = "None"
	// StepBegin a rotation: State.Begin with a new CA.
	StepBegin Step = "Begin"
	// StepSign with the new CA from now on: State.Sign.
	StepSign Step = "Sign"
	// StepFinish: the old CA is not trusted any more: State.Finish.
	StepFinish Step = "Finish"
)

// Member is a member as a rotation sees it.
type Member struct {
	Name string
	// Certificate is nil where it has none.
	Certificate *v1alpha1.MemberCertificate
}

// StepDue says which step of a rotation is due, and if none is since members are
// waited for, which. requested is an operator's wish to begin one; lifetime is
// that of agents' certificates.
//
// Nobody is waited for longer than a certificate lives: by then all that were
// issued before the stage began have expired.
func (s State) StepDue(requested bool, members []Member, lifetime time.Duration, now time.Time) (Step, []string) {
	if s.Stage == StageStable {
		if requested || now.After(s.Issuer.Certificate.NotAfter.Add(-RotateBefore)) {
			return StepBegin, nil
		}
		return StepNone, nil
	}
	waiting := s.waiting(members, now)
	if len(waiting) > 0 && !now.After(s.Since.Add(lifetime+Backdate)) {
		return StepNone, waiting
	}
	if s.Stage == StageDistributing {
		return StepSign, nil
	}
	return StepFinish, nil
}

// waiting are the members that have a certificate that is valid, and not yet
// been seen with what the stage gives them.
func (s State) waiting(members []Member, now time.Time) []string {
	var names []string
	for _, m := range members {
		if m.Certificate != nil && live(m.Certificate, now) && !s.settled(m.Certificate) {
			names = append(names, m.Name)
		}
	}
	slices.Sort(names)
	return names
}

func live(c *v1alpha1.MemberCertificate, now time.Time) bool {
	return c.Serial != "" && (c.NotAfter == nil || now.Before(c.NotAfter.Time)) ||
		c.NextSerial != "" && (c.NextNotAfter == nil || now.Before(c.NextNotAfter.Time))
}

// settled is whether a member has what the stage gives. What was issued and not
// used may have got lost on its way.
func (s State) settled(c *v1alpha1.MemberCertificate) bool {
	if c.NextSerial != "" {
		return false
	}
	if s.Stage == StageDistributing {
		return c.TrustBundleHash == s.BundleHash()
	}
	return c.IssuerHash == s.Issuer.Hash()
}

// Begin a rotation to the next CA.
func (s State) Begin(next Issuer, now time.Time) State {
	s.Next = &next
	s.Bundle = []*x509.Certificate{s.Issuer.Certificate, next.Certificate}
	s.Stage, s.Since = StageDistributing, now
	return s
}

// Sign with the next CA. The old one's key is dropped.
func (s State) Sign(now time.Time) State {
	s.Issuer, s.Next = *s.Next, nil
	s.Stage, s.Since = StageReissuing, now
	return s
}

// Finish drops the old CA: nobody trusts it any more.
func (s State) Finish(now time.Time) State {
	s.Bundle = []*x509.Certificate{s.Issuer.Certificate}
	s.Stage, s.Since = StageStable, now
	return s
}
