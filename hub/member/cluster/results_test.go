package cluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
)

// The cache's item after a result depends on the item before it.
func TestCacheAfterResults(t *testing.T) {
	stored := protocol.Result{Code: protocol.Stored, SpecHash: "new"}
	withdrawn := protocol.Result{Code: protocol.Stored}
	ended := protocol.Result{Code: protocol.Stopped}
	refusal := protocol.Result{Code: protocol.Refused, SpecHash: "new", Reason: "NoCapacity", Message: "full"}
	for _, c := range []struct {
		name   string
		before *v1alpha1.SessionAssignment
		result protocol.Result
		epoch  int64
		want   string
	}{
		{"stored: new", nil, stored, 5, "Active5 new"},
		{"stored: a change", item("a", 5, active), stored, 5, "Active5 new"},
		{"stored: a newer epoch", item("a", 4, active), stored, 5, "Active5 new"},
		{"stored: a newer epoch after an end", item("a", 4, stopped), stored, 5, "Active5 new"},
		{"stored: a newer epoch after a refusal", item("a", 4, refused), stored, 5, "Active5 new"},
		{"stored: late, for an older epoch", item("a", 6, active), stored, 5, "Active6 "},
		{"stored: late, for what has ended", item("a", 5, stopped), stored, 5, "Stopped5 "},
		{"withdrawn", item("a", 5, active), withdrawn, 5, "Stopping5 "},
		{"withdrawn: up to a higher epoch", item("a", 5, active), withdrawn, 6, "Stopping5 "},
		{"withdrawn: a newer one continues", item("a", 6, active), withdrawn, 5, "Active6 "},
		{"withdrawn: nothing was there", nil, withdrawn, 5, "nothing"},
		{"withdrawn: it has ended", item("a", 5, stopped), withdrawn, 5, "Stopped5 "},
		{"stopped", item("a", 5, stopping), ended, 5, "Stopped5 "},
		{"stopped: the proof is kept", proven(item("a", 5, stopping)), ended, 5, "Stopped5  proof"},
		{"stopped: up to an epoch that was not proven", proven(item("a", 4, stopping)), ended, 5, "Stopped5 "},
		{"stopped: up to a higher epoch", item("a", 4, stopping), ended, 5, "Stopped5 "},
		{"stopped: nothing was there", nil, ended, 5, "Stopped5 "},
		{"stopped: a newer one continues", item("a", 6, active), ended, 5, "Active6 "},
		{"refused", nil, refusal, 5, "Refused5 new NoCapacity: full"},
		{"refused: an earlier one continues", item("a", 4, active), refusal, 5, "Active4  NoCapacity: full"},
		{"refused: a change", item("a", 5, active), refusal, 5, "Active5  NoCapacity: full"},
		{"refused: after an earlier end", item("a", 4, stopped), refusal, 5, "Refused5 new NoCapacity: full"},
		{"refused: late", item("a", 6, stopped), refusal, 5, "Stopped6 "},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := c.result
			r.SessionUID, r.Namespace, r.Name, r.Epoch = "uid-a", "desktops", "a", c.epoch
			before := c.before.DeepCopy()
			var got *v1alpha1.SessionAssignment
			switch r.Code {
			case protocol.Stored:
				got = afterStored(c.before, &r)
			case protocol.Stopped:
				got = afterStopped(c.before, &r)
			case protocol.Refused:
				got = afterRefused(c.before, &r)
			}
			if diff := cmp.Diff(before, c.before); diff != "" {
				t.Errorf("what it got was changed:\n%s", diff)
			}
			text := "nothing"
			if got != nil {
				text = describe(got) + " " + got.Annotations[v1alpha1.AnnotationSpecHash]
				if got.Spec.Proof != "" {
					text += " " + got.Spec.Proof
				}
				if got.Status.Reason != "" {
					text += " " + got.Status.Reason + ": " + got.Status.Message
				}
				if got.Spec.Session.UID != "uid-a" || got.Name != "a" || got.Namespace != "desktops" {
					t.Errorf("it is of another session: %+v", got)
				}
			}
			if text != c.want {
				t.Errorf("got %q, want %q", text, c.want)
			}
		})
	}
}

// The running time that the agent reported counts for the session after its desktop has
// stopped.
func TestAccountOfTheTimeUsedOutlivesTheDesktop(t *testing.T) {
	before := item("a", 5, stopping)
	before.Status.TimeUsed = "2m"
	r := protocol.Result{Code: protocol.Stopped, SessionUID: "uid-a", Namespace: "desktops", Name: "a", Epoch: 5}
	if used := afterStopped(before, &r).Status.TimeUsed; used != "2m" {
		t.Errorf("the time used is %q, want 2m", used)
	}
	r.SessionUID = "uid-of-another"
	if used := afterStopped(before, &r).Status.TimeUsed; used != "" {
		t.Errorf("another session is charged %q", used)
	}
}

func proven(a *v1alpha1.SessionAssignment) *v1alpha1.SessionAssignment {
	a.Spec.Proof = "proof"
	return a
}

func TestAReportThatBringsAProofIsShown(t *testing.T) {
	p := newCache(nil, nil)
	p.Apply(reportsOf(item("a", 5, active)))
	p.Apply(reportsOf(proven(item("a", 5, active))))
	if got := p.Get(keyOfName("a")); got.Spec.Proof != "proof" {
		t.Error("the cache keeps the report without it")
	}
}

func TestRefusalIsForgottenOnceItIsStored(t *testing.T) {
	old := item("a", 5, active)
	old.Status.Reason, old.Status.Message = "Invalid", "too long"
	got := afterStored(old, &protocol.Result{Name: "a", Epoch: 5, SpecHash: "new", Code: protocol.Stored})
	if got.Status.Reason != "" || got.Status.Message != "" {
		t.Errorf("still refused: %+v", got.Status)
	}
}
