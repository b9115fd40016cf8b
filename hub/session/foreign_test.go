package session

import "testing"

// TestAMemberThatNamesASessionWithoutItsUIDLearnsNothing has a member report,
// in every state and epoch, what bears the name of a session's assignment but
// not its UID: the plan is that for a session that the hub does not have, and
// where the member has the session, that for a member that says nothing.
func TestAMemberThatNamesASessionWithoutItsUIDLearnsNothing(t *testing.T) {
	for _, wanted := range sessionsAsWanted {
		if wanted.session == nil {
			continue
		}
		session := wanted.session.DeepCopy()
		session.UID = "its-own"
		for _, state := range statesReported {
			for epoch := int64(4); epoch <= 6; epoch++ {
				forged := reports(state, epoch, "hash")
				forged.Spec.Session.UID = "a-guess"
				s, reported := ownOf(session, here, forged)
				want := planned(nil, forged)
				if w := wantOf(session, here); w.run || w.stop {
					want = planned(session, nil)
				}
				if got := planned(s, reported); got != want {
					t.Errorf("%s, reported %s of epoch %d: %s, want %s", wanted.name, state, epoch, got, want)
				}
				forged.Spec.Session.UID = "its-own"
				if s, reported := ownOf(session, here, forged); s != session || reported != forged {
					t.Errorf("%s, reported %s of epoch %d: what bears the UID is left aside", wanted.name, state, epoch)
				}
			}
		}
	}
}
