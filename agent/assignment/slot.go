package assignment

import (
	"time"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// slot is what is still to be done about one session: at most a withdrawal,
// and an assignment of a higher epoch after it.
type slot struct {
	assign *v1alpha1.SessionAssignment
	// came is when it did.
	came     time.Time
	withdraw *withdrawal
	// late is an assignment that is stored and answered, and Secrets of which
	// could not be stored yet. The newest takes its place.
	late *v1alpha1.SessionAssignment
}

type withdrawal struct {
	*fleetv1.Withdrawal
	// told: Stored has been answered, or was not asked for.
	told bool
}

func (s *slot) empty() bool { return s.assign == nil && s.withdraw == nil && s.late == nil }

// putAssign takes the newest assignment; false if it is older than the one
// that waits. The caller has checked the floor.
func (s *slot) putAssign(a *v1alpha1.SessionAssignment, now time.Time) bool {
	if s.assign != nil && a.Spec.Epoch < s.assign.Spec.Epoch {
		return false
	}
	s.assign, s.came = a, now
	return true
}

// putWithdraw takes the furthest withdrawal, and drops what it withdraws. The
// force of one is not lost to its repetition.
func (s *slot) putWithdraw(w *withdrawal) {
	if s.withdraw != nil && s.withdraw.GetForce() && s.withdraw.GetUpToEpoch() == w.GetUpToEpoch() {
		w.Force = true
	}
	if s.withdraw == nil || w.GetUpToEpoch() >= s.withdraw.GetUpToEpoch() {
		s.withdraw = w
	}
	if s.assign != nil && s.assign.Spec.Epoch <= w.GetUpToEpoch() {
		s.assign = nil
	}
	if s.late != nil && s.late.Spec.Epoch <= w.GetUpToEpoch() {
		s.late = nil
	}
}
