package assignment

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

// A member reports, in every state and epoch, an assignment with the name of a session's but
// another UID. The plan is that for a session that the hub does not have, or, if the session
// is placed in the member, that for a member that reports nothing.
func TestAMemberThatNamesASessionWithoutItsUIDGetsNoData(t *testing.T) {
	for _, wanted := range sessionsAsWanted {
		if wanted.session == nil {
			continue
		}
		session := wanted.session.DeepCopy()
		session.UID = "its-own"
		for _, state := range statesReported {
			for epoch := int64(4); epoch <= 6; epoch++ {
				forged := sessiontest.Reported(state, epoch, "hash")
				forged.Spec.Session.UID = "a-guess"
				s, reported := Attribute(session, sessiontest.Here, forged, true)
				want := planned(nil, forged)
				if w := status.DesiredIn(session, sessiontest.Here); w.Run || w.Stop {
					want = planned(session, nil)
				}
				if got := planned(s, reported); got != want {
					t.Errorf("%s, reported %s of epoch %d: %s, want %s", wanted.name, state, epoch, got, want)
				}
				forged.Spec.Session.UID = "its-own"
				if s, reported := Attribute(session, sessiontest.Here, forged, true); s != session || reported != forged {
					t.Errorf("%s, reported %s of epoch %d: the report with the UID is ignored", wanted.name, state, epoch)
				}
			}
		}
	}
}

// countedReports specifies which reports count for a session whose status has epoch 5: the
// steps for a member that reports epochs 4, 5 and 6, without and with the right proof.
var countedReports = map[string][2]string{
	"placed":    {"Assign 5|Mirror 5|Assign 5", "Assign 5|Mirror 5|Adopt 6"},
	"releasing": {"Withdraw 5|Withdraw 5|Withdraw 5", "Withdraw 5|Withdraw 5|Adopt 6"},
	"deleted":   {"Withdraw 5|Withdraw 5|Withdraw 5", "Withdraw 5|Withdraw 5|Adopt 6"},
	"elsewhere": {"Orphan 4|Orphan 5|Orphan 6", "Withdraw 4|Withdraw 5|Adopt 6"},
	"nowhere":   {"Orphan 4|Orphan 5|Orphan 6", "Withdraw 4|Withdraw 5|Adopt 6"},
}

// wrongProofs returns proofs of another member, session, epoch and key, and invalid ones.
func wrongProofs(p *Proofs, epoch int64) map[string]string {
	return map[string]string{
		"none":            "",
		"nonsense":        "nonsense",
		"another member":  p.of(sessiontest.Elsewhere, "uid-session", epoch),
		"another session": p.of(sessiontest.Here, "uid-other", epoch),
		"another epoch":   p.of(sessiontest.Here, "uid-session", epoch+1),
		"another key":     proofsOf('x').of(sessiontest.Here, "uid-session", epoch),
	}
}

func TestOnlyProvenReportsCountBeyondTheStatus(t *testing.T) {
	proofs := proofsOf('k')
	plannedFor := func(s *v1alpha1.VDISession, epoch int64, proof string) string {
		reported := sessiontest.Reported(v1alpha1.AssignmentActive, epoch, "hash")
		reported.Spec.Proof = proof
		return planned(Attribute(s, sessiontest.Here, reported, proofs.Proves(s, sessiontest.Here, reported)))
	}
	for _, wanted := range sessionsAsWanted {
		if wanted.session == nil {
			continue
		}
		want := countedReports[wanted.name]
		for n, epoch := range []int64{4, 5, 6} {
			for name, proof := range wrongProofs(proofs, epoch) {
				if got, want := plannedFor(wanted.session, epoch, proof), strings.Split(want[0], "|")[n]; got != want {
					t.Errorf("%s, epoch %d, proof of %s: %s, want %s", wanted.name, epoch, name, got, want)
				}
			}
			proof := proofs.of(sessiontest.Here, "uid-session", epoch)
			if got, want := plannedFor(wanted.session, epoch, proof), strings.Split(want[1], "|")[n]; got != want {
				t.Errorf("%s, epoch %d, the right proof: %s, want %s", wanted.name, epoch, got, want)
			}
		}
	}
}

// The steps are those for a session that does not exist, whatever the member reports: no state
// and no epoch discloses that there is one.
func TestAMemberThatNeverHadASessionIsAnsweredAsIfThereWereNone(t *testing.T) {
	session := sessiontest.With(sessiontest.PlacedAt(sessiontest.Elsewhere, 5))
	for _, state := range statesReported {
		for _, epoch := range []int64{1, 5, 6, 1 << 40} {
			forged := sessiontest.Reported(state, epoch, "hash")
			s, reported := Attribute(session, sessiontest.Here, forged, false)
			if s != nil || planned(s, reported) != planned(nil, forged) {
				t.Errorf("%s of epoch %d: %s", state, epoch, planned(s, reported))
			}
		}
	}
}

// The member of a session ends or refuses a later epoch than the hub's, without a proof. That
// also counts for the hub's own epoch: otherwise the hub would send the same order forever.
func TestAnAnswerCountsThoughItsEpochIsNotProven(t *testing.T) {
	refuses := sessiontest.Reported(v1alpha1.AssignmentActive, 7, "hash")
	refuses.Status.Reason = v1alpha1.RefusedStaleEpoch
	for _, c := range []struct {
		name     string
		session  *v1alpha1.VDISession
		reported *v1alpha1.SessionAssignment
		want     string
	}{
		{"its end, where the session is placed", sessiontest.With(sessiontest.PlacedAt(sessiontest.Here, 5)), sessiontest.Reported(v1alpha1.AssignmentStopped, 7, ""), "RecordStopped 5"},
		{"its end, where the session is being released", sessiontest.With(sessiontest.ReleasingAt(sessiontest.Here, 4)), sessiontest.Reported(v1alpha1.AssignmentStopped, 7, ""), "RecordStopped 4"},
		{"a refusal of the epoch", sessiontest.With(sessiontest.PlacedAt(sessiontest.Here, 5)), sessiontest.Reported(v1alpha1.AssignmentRefused, 7, ""), "RecordRefused 5"},
		{"a refusal of the hub's order", sessiontest.With(sessiontest.PlacedAt(sessiontest.Here, 5)), refuses, "RecordRefused 5"},
		{"a refusal ends nothing that runs", sessiontest.With(sessiontest.ReleasingAt(sessiontest.Here, 5)), refuses, "Withdraw 5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := c.reported.DeepCopy()
			if got := planned(Attribute(c.session, sessiontest.Here, c.reported, false)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if !equality.Semantic.DeepEqual(before, c.reported) {
				t.Error("the report was changed: it is the cache's")
			}
		})
	}
}
