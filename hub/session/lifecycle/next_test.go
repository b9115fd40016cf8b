package lifecycle

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/assignment"
	"github.com/vdi-fleet/vdi-fleet/hub/failover"
	"github.com/vdi-fleet/vdi-fleet/hub/member"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/hub/scheduling"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

// inputOf returns the Input of a session of template "browser" in a fleet whose members are
// all ready.
func inputOf(changes ...func(*v1alpha1.VDISession)) *Input {
	spec := v1alpha1.TemplateSpec{Image: "browser:1", Port: 6901}
	s := sessiontest.With(changes...)
	s.Status.ObservedGeneration = s.Generation
	return &Input{
		Now: sessiontest.Now, Session: s, Timings: Timings{}.OrDefaults(),
		Members: map[types.UID]member.State{
			sessiontest.Here:      {Health: health.Ready, Known: true, Spec: v1alpha1.MemberClusterSpec{Region: "eu", IngressScheme: "https", IngressDomain: "eu.example.com"}},
			sessiontest.Elsewhere: {Health: health.Ready, Known: true, Spec: v1alpha1.MemberClusterSpec{Region: "us", IngressScheme: "https", IngressDomain: "us.example.com"}},
		},
		Template: Template{Current: &v1alpha1.VDITemplate{Spec: spec}, Revision: "r2", Run: &spec},
	}
}

func (in *Input) with(changes ...func(*Input)) *Input {
	for _, change := range changes {
		change(in)
	}
	return in
}

// reports adds a report of a member; the order of its member has the hash "hash".
func reports(member types.UID, state v1alpha1.AssignmentState, epoch int64, change ...func(*v1alpha1.SessionAssignment)) func(*Input) {
	return func(in *Input) {
		a := sessiontest.Reported(state, epoch, "hash")
		for _, c := range change {
			c(a)
		}
		in.Reports = append(in.Reports, &assignment.Report{Ref: v1alpha1.ClusterRef{Name: "name-of-" + string(member), UID: member}, Assignment: a, Proven: true})
		in.Order = &assignment.Order{Assignment: a, Hash: "hash", Spec: in.Template.Run, URL: "https://desktop"}
	}
}

// holdsNothing has the session's member report nothing of it.
func holdsNothing(in *Input) {
	reports(sessiontest.Here, v1alpha1.AssignmentActive, 5)(in)
	in.Reports[0].Assignment, in.Reports[0].Proven = nil, false
}

func lost(member types.UID) func(*Input) {
	return func(in *Input) {
		m := in.Members[member]
		m.Health, m.LastHeartbeat = health.Unreachable, in.Now.Add(-time.Hour)
		m.Failover = failover.Facts{
			Timings: failover.DefaultTimings(1), Fleet: failover.Fleet{Now: in.Now, LedSince: in.Now.Add(-time.Hour)},
			Member: failover.Member{Name: "name-of-" + string(member), Unreachable: true, LostAt: in.Now.Add(-time.Hour), LastHeartbeat: in.Now.Add(-time.Hour)},
		}
		in.Members[member] = m
	}
}

func fits(member types.UID) func(*Input) {
	return func(in *Input) {
		in.Answer = &scheduling.Answer{Decision: placement.Decision{
			Placed: true, Cluster: v1alpha1.ClusterRef{Name: "name-of-" + string(member), UID: member}, Region: "us", Reason: v1alpha1.ReasonPlaced, Message: "it fits",
		}}
	}
}

func nothingFits(in *Input) {
	in.Answer = &scheduling.Answer{Decision: placement.Decision{Reason: v1alpha1.ReasonUnschedulable, Message: "2 lack cpu"}}
}

func neverPlaced(s *v1alpha1.VDISession) { s.Status.Epoch = 0 }

func suspended(s *v1alpha1.VDISession) { s.Spec.OperatingMode = v1alpha1.ModeSuspended }

func idle(s *v1alpha1.VDISession) { s.Status.Placement.Idle = true }

func held(s *v1alpha1.VDISession) { s.Spec.Failover.Mode = v1alpha1.FailoverHold }

func restarts(s *v1alpha1.VDISession) { s.Spec.Failover.Mode = v1alpha1.FailoverRestart }

func ran(s *v1alpha1.VDISession) {
	at := metav1.NewTime(sessiontest.Now.Add(-time.Minute))
	s.Status.StartTime, s.Status.RunningSince = &at, &at
}

// outline summarizes a plan.
type outline struct {
	// At is the placement, and Left the releases.
	At, Left string
	// Scheduled is the condition.
	Scheduled string
	// Does is what else the plan does.
	Does []string
}

func outlineOf(in *Input, p Plan) outline {
	s := p.Session
	var o outline
	if at := s.Status.Placement; at != nil {
		o.At = fmt.Sprintf("%s %d.%d", at.ClusterUID, at.Epoch, at.Run)
		if at.Idle {
			o.At += " idle"
		}
	}
	for _, r := range s.Status.Releasing {
		o.Left += fmt.Sprintf("%s %d", r.ClusterUID, r.Epoch)
		if r.Superseded {
			o.Left += " superseded"
		}
	}
	for _, c := range s.Status.Conditions {
		if c.Type == v1alpha1.ConditionScheduled {
			o.Scheduled = string(c.Status) + "/" + c.Reason
		}
	}
	add := func(does bool, what string) {
		if does {
			o.Does = append(o.Does, what)
		}
	}
	add(p.Request != nil, "requests")
	add(p.Hold, "holds")
	add(p.Waits != "", "waits: "+p.Waits)
	add(p.Release, "releases capacity")
	add(p.Lost, "waits for failover")
	add(p.EndMove, "ends the move")
	add(p.Revision != "", "stores revision "+p.Revision)
	add(p.Reserve, "accounts: Reserve")
	add(p.Counted, "accounts: Reported")
	add(p.Moved != "", "moved")
	add(p.End && !p.Forced, "ends: Confirmed")
	add(p.Forced, "ends: Forced")
	for _, e := range p.Events {
		o.Does = append(o.Does, e.Reason)
	}
	add(!p.Hold && !p.End && equality.Semantic.DeepEqual(in.Session.Status, s.Status), "nothing")
	return o
}

func TestNext(t *testing.T) {
	const here, elsewhere = sessiontest.Here, sessiontest.Elsewhere
	noNode := sessiontest.Condition(v1alpha1.ConditionPodReady, sessiontest.No, v1alpha1.ReasonUnschedulablePod)
	waited := func(in *Input) { in.Known.NodeWait = new(time.Duration) }
	draining := func(in *Input) {
		m := in.Members[here]
		m.Drain = &member.Drain{}
		in.Members[here] = m
	}
	for _, c := range []struct {
		name string
		in   *Input
		want outline
	}{
		{"a new session requests capacity, and is not written", inputOf(neverPlaced), outline{Does: []string{"requests", "holds"}}},
		{"a new session of which an answer is there", inputOf(neverPlaced).with(fits(here)),
			outline{At: "uid-here 1.1", Scheduled: "True/Placed", Does: []string{"stores revision r2"}}},
		{"a new session that fits nowhere", inputOf(neverPlaced).with(nothingFits), outline{Scheduled: "False/Unschedulable", Does: []string{"Waiting"}}},
		{"a new session without a template", inputOf(neverPlaced).with(func(in *Input) { in.Template = Template{} }),
			outline{Does: []string{"releases capacity", "NotAccepted"}}},
		{"a new session in a namespace that is not served", inputOf(neverPlaced).with(func(in *Input) { in.NotServed = "not served" }),
			outline{Does: []string{"releases capacity", "NotAccepted"}}},
		{"a new session that is suspended", inputOf(neverPlaced, suspended), outline{Scheduled: "False/Suspended", Does: []string{"releases capacity", "Waiting"}}},
		{"an earlier placement is not confirmed as stopped", inputOf(sessiontest.ReleasingAt(here, 5)),
			outline{Left: "uid-here 5", Scheduled: "False/Releasing", Does: []string{"Waiting"}}},
		{"the member confirms the stop", inputOf(sessiontest.ReleasingAt(here, 5)).with(reports(here, v1alpha1.AssignmentStopped, 5)),
			outline{Scheduled: "False/Releasing"}},
		{"the member refuses it", inputOf(sessiontest.Scheduled).with(reports(here, v1alpha1.AssignmentRefused, 5)),
			outline{Scheduled: "False/Refused", Does: []string{"Refused"}}},
		{"it pauses after refusals", inputOf().with(func(in *Input) { in.Known.Pause = time.Second }),
			outline{Scheduled: "False/Refused", Does: []string{"waits: Refused", "Waiting"}}},
		{"a member proves a later epoch", inputOf().with(reports(here, v1alpha1.AssignmentActive, 9)),
			outline{At: "uid-here 9.1", Scheduled: "True/Placed", Does: []string{"releases capacity", "stores revision r2", "accounts: Reported", "Placed"}}},
		{"a member claims a later epoch, and is not connected", inputOf().with(func(in *Input) { in.Restore.LastAssigned, in.Restore.Claim = 9, "us" }),
			outline{Scheduled: "False/HubRestored", Does: []string{"waits: HubRestored", "Waiting"}}},
		{"a restored hub assigns no epoch that one of before the restore may have assigned", inputOf(neverPlaced).with(fits(here), func(in *Input) { in.Restore.LastAssigned = 9 }),
			outline{At: "uid-here 10.1", Scheduled: "True/Placed", Does: []string{"stores revision r2"}}},
		{"a member that may run it has not reported since the restore, and its mode is Hold", inputOf(held).with(fits(here), func(in *Input) {
			in.Restore.LastAssigned, in.Restore.Unreported = 9, []string{"us"}
		}), outline{Scheduled: "False/HubRestored", Does: []string{"waits: HubRestored", "Waiting"}}},
		{"its placement is of the backup, and the member holds nothing of it", inputOf(sessiontest.Scheduled).with(holdsNothing, func(in *Input) { in.Restore.LastAssigned = 9 }),
			outline{Left: "uid-here 5", Scheduled: "False/Releasing"}},
		{"so it is while the hub waits for its members' reports", inputOf(sessiontest.Scheduled).with(holdsNothing, func(in *Input) {
			in.Restore.LastAssigned, in.Restore.Recovering = 9, true
		}), outline{At: "uid-here 5.0", Scheduled: "True/Placed"}},
		{"so it is, and another member claims a later epoch", inputOf(sessiontest.Scheduled).with(holdsNothing, func(in *Input) {
			in.Restore.LastAssigned, in.Restore.Claim = 9, "us"
		}), outline{At: "uid-here 5.0", Scheduled: "True/Placed"}},
		{"two members prove its epoch, and this leader assigned the second", inputOf(sessiontest.Ready, ran).with(reports(elsewhere, v1alpha1.AssignmentActive, 5), func(in *Input) {
			in.Known.LastEpoch = 5
		}), outline{At: "uid-elsewhere 6.1", Left: "uid-here 5", Scheduled: "True/Placed",
			Does: []string{"releases capacity", "accounts: Reserve", "Placed"}}},
		{"two members prove its epoch, and an earlier leader assigned both", inputOf(sessiontest.Ready, ran).with(reports(elsewhere, v1alpha1.AssignmentActive, 5)),
			outline{At: "uid-here 5.0", Scheduled: "True/Placed"}},
		{"its desktop runs", inputOf(sessiontest.Ready, ran), outline{At: "uid-here 5.0", Scheduled: "True/Placed"}},
		{"its desktop is to be suspended", inputOf(sessiontest.Ready, ran, suspended),
			outline{At: "uid-here 5.0 idle", Scheduled: "True/Placed", Does: []string{"releases capacity", "Suspended"}}},
		{"its desktop is to be resumed", inputOf(sessiontest.Ready, idle), outline{At: "uid-here 5.0 idle", Scheduled: "True/Placed", Does: []string{"requests", "holds"}}},
		{"its desktop is resumed", inputOf(sessiontest.Ready, idle).with(fits(here)), outline{At: "uid-here 5.2", Scheduled: "True/Placed", Does: []string{"Resumed"}}},
		{"its member is lost, and its mode is Hold", inputOf(sessiontest.Ready, ran, held).with(lost(here)),
			outline{At: "uid-here 5.0", Scheduled: "True/Placed", Does: []string{"waits for failover", "FailoverPending", "MemberUnreachable"}}},
		{"its member is lost, and its mode is Restart", inputOf(sessiontest.Ready, ran, restarts).with(lost(here)),
			outline{At: "uid-here 5.0", Scheduled: "True/Placed", Does: []string{"requests", "holds", "waits for failover"}}},
		{"it is rescheduled", inputOf(sessiontest.Ready, ran, restarts).with(lost(here), fits(elsewhere)),
			outline{At: "uid-elsewhere 6.1", Left: "uid-here 5 superseded", Scheduled: "True/Placed", Does: []string{"waits for failover", "FailedOver"}}},
		{"no node fits its Pod, which may change yet", inputOf(sessiontest.Created, noNode), outline{At: "uid-here 5.0", Scheduled: "True/Placed"}},
		{"no node fits its Pod", inputOf(sessiontest.Created, noNode).with(waited), outline{At: "uid-here 5.0", Scheduled: "True/Placed", Does: []string{"requests"}}},
		{"another member has a node for it", inputOf(sessiontest.Created, noNode).with(waited, fits(elsewhere)),
			outline{Left: "uid-here 5", Scheduled: "False/Releasing", Does: []string{"moved", "Moved"}}},
		{"its member is drained, and it is in use", inputOf(sessiontest.Ready, ran).with(draining),
			outline{At: "uid-here 5.0", Scheduled: "True/Draining", Does: []string{"Draining"}}},
		{"its member is drained, and it is suspended", inputOf(sessiontest.Ready, ran, suspended, idle).with(draining),
			outline{Left: "uid-here 5", Scheduled: "False/Suspended", Does: []string{"releases capacity", "moved", "Moved", "Waiting"}}},
		{"it is to be rebalanced, and is in use", inputOf(sessiontest.Ready, ran, func(s *v1alpha1.VDISession) {
			s.Annotations = map[string]string{v1alpha1.AnnotationMove: s.Status.Placement.ClusterName}
		}), outline{At: "uid-here 5.0", Scheduled: "True/Placed", Does: []string{"holds", "ends the move"}}},
		{"it is deleted, and its member has not confirmed", inputOf(sessiontest.Ready, sessiontest.Deleted), outline{At: "uid-here 5.0", Scheduled: "True/Placed"}},
		{"it is deleted, and its member has confirmed", inputOf(sessiontest.Ready, sessiontest.Deleted).with(reports(here, v1alpha1.AssignmentStopped, 5)),
			outline{Scheduled: "True/Placed", Does: []string{"ends: Confirmed"}}},
		{"it is deleted by force, and its member is away", inputOf(sessiontest.Ready, sessiontest.Deleted).with(lost(here), func(in *Input) { in.Known.ForcedSince = in.Now }),
			outline{At: "uid-here 5.0", Scheduled: "True/Placed", Does: []string{"ends: Forced"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := c.in.Session.DeepCopy()
			if diff := cmp.Diff(c.want, outlineOf(c.in, Next(c.in))); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, c.in.Session); diff != "" {
				t.Errorf("it changes its input (-before +after):\n%s", diff)
			}
		})
	}
}

// After a plan is written, the next pass finds it done: without new facts it writes
// nothing.
func TestNextIsStable(t *testing.T) {
	for name, in := range map[string]*Input{
		"placed":     inputOf(neverPlaced).with(fits(sessiontest.Here)),
		"waiting":    inputOf(neverPlaced).with(nothingFits),
		"suspended":  inputOf(sessiontest.Ready, ran, suspended),
		"held":       inputOf(sessiontest.Ready, ran, held).with(lost(sessiontest.Here)),
		"failedOver": inputOf(sessiontest.Ready, ran, restarts).with(lost(sessiontest.Here), fits(sessiontest.Elsewhere)),
	} {
		t.Run(name, func(t *testing.T) {
			in.Session = Next(in).Session
			p := Next(in)
			if diff := cmp.Diff(in.Session.Status, p.Session.Status); diff != "" {
				t.Errorf("the second plan writes again (-first +second):\n%s", diff)
			}
			if len(p.Events) > 0 {
				t.Errorf("the second plan records %v", p.Events)
			}
		})
	}
}

// The copy that is released is subject to the mode that it was placed with.
func TestReleaseKeepsTheModeOfItsPlacement(t *testing.T) {
	noNode := sessiontest.Condition(v1alpha1.ConditionPodReady, sessiontest.No, v1alpha1.ReasonUnschedulablePod)
	in := inputOf(sessiontest.Created, noNode, func(s *v1alpha1.VDISession) { s.Status.Placement.FailoverMode = v1alpha1.FailoverHold })
	in.Known.NodeWait = new(time.Duration)
	p := Next(in.with(fits(sessiontest.Elsewhere)))
	if left := p.Session.Status.Releasing; len(left) != 1 || left[0].FailoverMode != v1alpha1.FailoverHold {
		t.Errorf("it is released as %+v", left)
	}
}

func TestTemplateRevisionThatCanNotBeRead(t *testing.T) {
	unread := func(in *Input) { in.Template = Template{Unread: fmt.Errorf("not found")} }
	if p := Next(inputOf(sessiontest.Ready).with(unread)); p.Err == nil {
		t.Error("a plan is made without the template")
	}
	p := Next(inputOf(sessiontest.ReleasingAt(sessiontest.Here, 5)).with(unread, reports(sessiontest.Here, v1alpha1.AssignmentStopped, 5)))
	if p.Err != nil || len(status.Outstanding(p.Session)) > 0 {
		t.Errorf("a confirmed stop is not recorded: %v", p.Err)
	}
}
