package pki

import (
	"crypto/x509"
	"slices"
	"time"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// RotateBefore is how long before the CA expires its rotation begins automatically.
const RotateBefore = 365 * 24 * time.Hour

// Step is the next action on the CA.
type Step string

// The steps.
const (
	// StepNone: no action, or not yet.
	StepNone Step = "None"
	// StepBegin a rotation: State.Begin with a new CA.
	StepBegin Step = "Begin"
	// StepSign with the new CA from now on: State.Sign.
	StepSign Step = "Sign"
	// StepFinish: the old CA is not trusted any more: State.Finish.
	StepFinish Step = "Finish"
)

// StepDue returns the step of a rotation that is due, or the members that the rotation
// waits for. requested: an operator requests a rotation. lifetime is that of agents'
// certificates.
//
// The rotation waits no longer than that for a stage: by then all certificates from
// before the stage have expired.
func (s State) StepDue(requested bool, members []v1alpha1.MemberCluster, lifetime time.Duration, now time.Time) (Step, []string) {
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

// waiting returns the members with a valid certificate that have not reached the stage.
func (s State) waiting(members []v1alpha1.MemberCluster, now time.Time) []string {
	var names []string
	for i := range members {
		if c := members[i].Status.Certificate; c != nil && live(c, now) && !s.reached(c) {
			names = append(names, members[i].Name)
		}
	}
	slices.Sort(names)
	return names
}

func live(c *v1alpha1.MemberCertificate, now time.Time) bool {
	return c.Serial != "" && (c.NotAfter == nil || now.Before(c.NotAfter.Time)) ||
		c.NextSerial != "" && (c.NextNotAfter == nil || now.Before(c.NextNotAfter.Time))
}

// reached reports whether a member uses the bundle or the issuer of the stage. An issued
// certificate that is not used yet may have been lost.
func (s State) reached(c *v1alpha1.MemberCertificate) bool {
	if c.NextSerial != "" {
		return false
	}
	if s.Stage == StageDistributing {
		return c.TrustBundleHash == s.BundleHash()
	}
	return c.IssuerHash == s.Issuer.Hash()
}

// Begin begins a rotation to the next CA.
func (s State) Begin(next Issuer, now time.Time) State {
	s.Next = &next
	s.Bundle = []*x509.Certificate{s.Issuer.Certificate, next.Certificate}
	s.Stage, s.Since = StageDistributing, now
	return s
}

// Sign makes the next CA the issuer, and drops the old one's key.
func (s State) Sign(now time.Time) State {
	s.Issuer, s.Next = *s.Next, nil
	s.Stage, s.Since = StageReissuing, now
	return s
}

// Finish ends the trust in the old CA.
func (s State) Finish(now time.Time) State {
	s.Bundle = []*x509.Certificate{s.Issuer.Certificate}
	s.Stage, s.Since = StageStable, now
	return s
}
