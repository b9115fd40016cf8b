package assignment

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

// sessionsAsWanted are sessions of epoch 5, by what they require of member sessiontest.Here.
var sessionsAsWanted = []struct {
	name    string
	session *v1alpha1.VDISession
}{
	{"unknown", nil},
	{"placed", sessiontest.With(sessiontest.PlacedAt(sessiontest.Here, 5))},
	{"releasing", sessiontest.With(sessiontest.ReleasingAt(sessiontest.Here, 5))},
	{"deleted", sessiontest.With(sessiontest.PlacedAt(sessiontest.Here, 5), sessiontest.Deleted)},
	{"elsewhere", sessiontest.With(sessiontest.PlacedAt(sessiontest.Elsewhere, 5))},
	{"nowhere", sessiontest.With()},
}

var statesReported = []v1alpha1.AssignmentState{
	v1alpha1.AssignmentActive, v1alpha1.AssignmentStopping, v1alpha1.AssignmentStopped, v1alpha1.AssignmentRefused,
}

// wantedSteps specifies the step for each of those sessions and each state that a member may
// report, at an older, the same and a newer epoch, and if it reports nothing.
var wantedSteps = map[string]map[string]string{
	"unknown": {
		"nothing":  "None 0",
		"Active":   "Orphan 4|Orphan 5|Orphan 6",
		"Stopping": "Orphan 4|Orphan 5|Orphan 6",
		"Stopped":  "Forget 4|Forget 5|Forget 6",
		"Refused":  "Forget 4|Forget 5|Forget 6",
	},
	"placed": {
		"nothing":  "Assign 5",
		"Active":   "Assign 5|Mirror 5|Adopt 6",
		"Stopping": "Assign 5|Mirror 5|Adopt 6",
		"Stopped":  "Assign 5|RecordStopped 5|Adopt 6",
		"Refused":  "Assign 5|RecordRefused 5|Adopt 6",
	},
	"releasing": {
		"nothing":  "Withdraw 5",
		"Active":   "Withdraw 5|Withdraw 5|Adopt 6",
		"Stopping": "Withdraw 5|Withdraw 5|Adopt 6",
		"Stopped":  "Withdraw 5|RecordStopped 5|Adopt 6",
		"Refused":  "Withdraw 5|RecordStopped 5|Adopt 6",
	},
	"deleted": {
		"nothing":  "Withdraw 5",
		"Active":   "Withdraw 5|Withdraw 5|Adopt 6",
		"Stopping": "Withdraw 5|Withdraw 5|Adopt 6",
		"Stopped":  "Withdraw 5|RecordStopped 5|Adopt 6",
		"Refused":  "Withdraw 5|RecordStopped 5|Adopt 6",
	},
	"elsewhere": {
		"nothing":  "None 0",
		"Active":   "Withdraw 4|Withdraw 5|Adopt 6",
		"Stopping": "Withdraw 4|Withdraw 5|Adopt 6",
		"Stopped":  "Forget 4|Forget 5|Adopt 6",
		"Refused":  "Forget 4|Forget 5|Adopt 6",
	},
	"nowhere": {
		"nothing":  "None 0",
		"Active":   "Withdraw 4|Withdraw 5|Adopt 6",
		"Stopping": "Withdraw 4|Withdraw 5|Adopt 6",
		"Stopped":  "Forget 4|Forget 5|Adopt 6",
		"Refused":  "Forget 4|Forget 5|Adopt 6",
	},
}

func TestPlanOfEveryCombination(t *testing.T) {
	got := map[string]map[string]string{}
	for _, s := range sessionsAsWanted {
		got[s.name] = map[string]string{"nothing": planned(s.session, nil)}
		for _, state := range statesReported {
			row := ""
			for _, epoch := range []int64{4, 5, 6} {
				if row != "" {
					row += "|"
				}
				row += planned(s.session, sessiontest.Reported(state, epoch, "hash"))
			}
			got[s.name][string(state)] = row
		}
	}
	if diff := cmp.Diff(wantedSteps, got); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

func TestPlanOfAChange(t *testing.T) {
	placed := sessiontest.With(sessiontest.PlacedAt(sessiontest.Here, 5))
	refusedChange := sessiontest.Reported(v1alpha1.AssignmentActive, 5, "other")
	refusedChange.Status.Reason = v1alpha1.RefusedInvalid
	refusedEpoch := sessiontest.Reported(v1alpha1.AssignmentActive, 4, "other")
	refusedEpoch.Status.Reason = v1alpha1.RefusedInvalid
	inTrouble := sessiontest.Reported(v1alpha1.AssignmentActive, 5, "other")
	inTrouble.Status.Reason = v1alpha1.ReasonImagePull
	earlierInTrouble := sessiontest.Reported(v1alpha1.AssignmentActive, 4, "other")
	earlierInTrouble.Status.Reason = v1alpha1.ReasonImagePull
	lacking := sessiontest.Reported(v1alpha1.AssignmentActive, 5, "hash")
	lacking.Status.MissingSecrets = []string{"access"}
	both := sessiontest.With(sessiontest.PlacedAt(sessiontest.Elsewhere, 5), sessiontest.ReleasingAt(sessiontest.Here, 3))
	for _, c := range []struct {
		name     string
		session  *v1alpha1.VDISession
		reported *v1alpha1.SessionAssignment
		want     string
	}{
		{"a changed assignment is sent again", placed, sessiontest.Reported(v1alpha1.AssignmentActive, 5, "other"), "Assign 5"},
		{"a change is sent though the desktop is in trouble", placed, inTrouble, "Assign 5"},
		{"a higher epoch is sent where an earlier one is in trouble", placed, earlierInTrouble, "Assign 5"},
		{"a change that was refused is not sent again and again", placed, refusedChange, "Mirror 5"},
		{"a placement that was refused where an earlier one runs stops that one", placed, refusedEpoch, "Withdraw 5"},
		{"what lacks its Secrets is sent again", placed, lacking, "Resend 5"},
		{"a stop of an older epoch frees nothing newer", sessiontest.With(sessiontest.ReleasingAt(sessiontest.Here, 5)), sessiontest.Reported(v1alpha1.AssignmentStopped, 3, ""), "Withdraw 5"},
		{"an earlier placement is stopped though the session is placed elsewhere", both, sessiontest.Reported(v1alpha1.AssignmentActive, 3, "hash"), "Withdraw 3"},
		{"its end is recorded", both, sessiontest.Reported(v1alpha1.AssignmentStopped, 3, ""), "RecordStopped 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := planned(c.session, c.reported); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func planned(s *v1alpha1.VDISession, reported *v1alpha1.SessionAssignment) string {
	step, epoch := Plan(s, sessiontest.Here, reported, "hash")
	return fmt.Sprintf("%s %d", step, epoch)
}
