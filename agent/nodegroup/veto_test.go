package nodegroup

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var browser = Class{Template: "browser", Revision: "r1", Requests: "cpu=1"}

// reject records a rejection of browser, as old as given.
func (s *scene) reject(by Autoscaler, age time.Duration, message string) bool {
	return s.Reject(browser, Rejection{By: by, Message: message, Time: s.now.Add(-age)}, s.now)
}

// expectVeto fails unless the first group has this veto of browser, empty if none.
func (s *scene) expectVeto(t *testing.T, when, want string) {
	t.Helper()
	if got := s.group().Vetoes[browser].Message; got != want {
		t.Errorf("%s: the veto is %q, want %q", when, got, want)
	}
}

func TestVetoLastsUntilTheGroupChanges(t *testing.T) {
	limited := func(nodes int32) Spec { return ofKarpenter(func(s *Spec) { s.MaxNodes = &nodes }) }
	for name, change := range map[string]func(*scene){
		"its limit":    func(s *scene) { s.SetGroups([]Spec{limited(6)}) },
		"its NodePool": func(s *scene) { s.SetNodePool(NodePool{Name: "general", Labels: map[string]string{"a": "b"}}) },
	} {
		s := newScene(limited(5))
		s.SetNode(machine("a"))
		s.group()
		if !s.reject(Karpenter, time.Second, "no instance type fits") {
			t.Error("the first rejection is no change")
		}
		s.expectVeto(t, "at once", "no instance type fits")
		if g := s.group(); text(g) != "Available 1+0, 4 more" {
			t.Errorf("other Pods grow it: %s", text(g))
		}
		s.SetNode(machine("b"))
		s.after(15 * time.Minute)
		if s.reject(Karpenter, 0, "no instance type fits (again)") {
			t.Error("a veto that lasts is a change")
		}
		s.expectVeto(t, "with a new node and a new event", "no instance type fits")
		s.after(29 * time.Minute)
		s.expectVeto(t, "29 minutes after the last", "no instance type fits")
		change(s)
		s.expectVeto(t, name, "")
		s.after(9 * time.Second)
		s.reject(Karpenter, 0, "decided before")
		s.expectVeto(t, "a rejection of the round in which it changed", "")
		s.after(time.Minute)
		if !s.reject(Karpenter, 0, "still none") {
			t.Error("a rejection of the changed group is no change")
		}
		s.expectVeto(t, "a later one", "still none")
		s.after(vetoFor)
		s.expectVeto(t, "half an hour later", "")
	}
}

// Reading the NodePools is no change of a group: what Karpenter rejected before an agent starts is still rejected.
func TestReadingTheSourceIsNoChange(t *testing.T) {
	tracker := NewTracker(Times{})
	s := &scene{Tracker: tracker, now: start}
	s.SetGroups([]Spec{ofKarpenter(func(s *Spec) { s.MaxNodes = ptr(int32(5)) })})
	s.group()
	s.SetNodePool(NodePool{Name: "general"})
	s.after(time.Second)
	s.SetKarpenter("")
	s.after(time.Second)
	s.reject(Karpenter, 2*time.Minute, "no")
	s.expectVeto(t, "Karpenter", "no")

	spec := declared(func(s *Spec) { s.ClusterAutoscalerGroup = "asg" })
	s = &scene{Tracker: NewTracker(Times{}), now: start}
	s.SetGroups([]Spec{spec})
	s.group()
	s.SetAutoscaler(&AutoscalerStatus{Written: s.now, Groups: map[string]AutoscalerGroup{"asg": {Most: 5}}})
	s.after(time.Second)
	s.reject(ClusterAutoscaler, time.Minute, "no")
	s.expectVeto(t, "cluster-autoscaler", "no")
	s.SetAutoscaler(&AutoscalerStatus{Written: s.now, Groups: map[string]AutoscalerGroup{"asg": {Most: 6}}})
	s.expectVeto(t, "with another limit", "")
}

// Karpenter repeats the event of a Pod only after five minutes.
func TestAPodThatIsYoungerThanAChange(t *testing.T) {
	s := newScene(ofKarpenter(func(s *Spec) { s.MaxNodes = ptr(int32(5)) }))
	s.group()
	s.SetNodePool(NodePool{Name: "general", Labels: map[string]string{"a": "b"}})
	s.group()
	changed := s.now
	s.after(3 * time.Second)
	s.Reject(browser, Rejection{By: Karpenter, Message: "older", Time: s.now, Created: changed.Add(-time.Second)}, s.now)
	s.expectVeto(t, "an older Pod may have been rejected before", "")
	s.after(time.Second)
	s.Reject(browser, Rejection{By: Karpenter, Message: "younger", Time: s.now, Created: changed.Add(time.Second)}, s.now)
	s.expectVeto(t, "a younger one not", "younger")
}

func TestAVetoForALimitIsShorter(t *testing.T) {
	s := newScene(ofKarpenter(func(s *Spec) { s.MaxNodes = ptr(int32(5)) }))
	s.group()
	limited := func() {
		s.Reject(browser, Rejection{By: Karpenter, Message: "exceed limits", Time: s.now, Limited: true}, s.now)
	}
	limited()
	s.after(5 * time.Minute)
	limited()
	s.after(limitedFor - time.Second)
	s.expectVeto(t, "repeated after five minutes", "exceed limits")
	s.after(time.Second)
	s.expectVeto(t, "not repeated", "")
	limited()
	s.after(time.Second)
	s.reject(Karpenter, 0, "no instance type fits")
	s.expectVeto(t, "for another cause", "no instance type fits")
}

func TestVetoesAreOfAClass(t *testing.T) {
	s := newScene(ofKarpenter(func(s *Spec) { s.MaxNodes = ptr(int32(5)) }))
	s.group()
	s.reject(Karpenter, 0, "no")
	for _, other := range []Class{{"browser", "r2", "cpu=1"}, {"browser", "r1", "cpu=2"}, {"office", "r1", "cpu=1"}} {
		if v := s.group().Vetoes; len(v) != 1 || v[other] != (Rejection{}) || s.Rejected("desktops", other, s.now) {
			t.Errorf("%+v has the veto of another", other)
		}
	}
}

func TestOldRejectionsDoNotCount(t *testing.T) {
	s := newScene(ofKarpenter(func(s *Spec) { s.MaxNodes = ptr(int32(5)) }))
	s.group()
	if s.reject(Karpenter, repeated, "long ago") {
		t.Error("it would have been repeated")
	}
	s.expectVeto(t, "an old one", "")
	s.reject(Karpenter, 5*time.Minute, "Karpenter repeats it after five minutes")
	s.expectVeto(t, "one from before this process", "Karpenter repeats it after five minutes")
	s.reject(Karpenter, time.Minute, "newer")
	if s.reject(Karpenter, 2*time.Minute, "older than the last") {
		t.Error("an older one is a change")
	}
	s.after(vetoFor - time.Minute - time.Second)
	s.expectVeto(t, "half an hour after the newest", "Karpenter repeats it after five minutes")
}

func TestAGroupDeclaredLaterHasNoEarlierRejections(t *testing.T) {
	spec := ofKarpenter(func(s *Spec) { s.MaxNodes = ptr(int32(5)) })
	s := newScene(declared(func(s *Spec) { s.Name = "other" }))
	s.group()
	s.SetGroups([]Spec{spec})
	s.group()
	s.reject(Karpenter, time.Second, "of the groups before")
	s.expectVeto(t, "declared just now", "")
	s.after(time.Minute)
	s.reject(Karpenter, 0, "of it")
	s.expectVeto(t, "later", "of it")
}

func TestWhichGroupsARejectionIsOf(t *testing.T) {
	karpenter := ofKarpenter(func(s *Spec) { s.Name, s.MaxNodes = "karpenter", ptr(int32(5)) })
	scaler := declared(func(s *Spec) {
		s.Name, s.ClusterAutoscalerGroup, s.Labels = "scaler", "asg", map[string]string{"pool": "scaler"}
	})
	closed := declared(func(s *Spec) { s.Name, s.Labels = "closed", map[string]string{"pool": "closed"} })
	for _, tc := range []struct {
		by     Autoscaler
		groups []Spec
		want   string
	}{
		{Karpenter, []Spec{karpenter, scaler, closed}, "[karpenter]"},
		{ClusterAutoscaler, []Spec{karpenter, scaler, closed}, "[scaler]"},
		{ClusterAutoscaler, []Spec{karpenter, closed}, "[closed]"},
		{Karpenter, []Spec{karpenter, closed}, "[karpenter]"},
		{Karpenter, []Spec{scaler, closed}, "[closed]"},
		{Karpenter, []Spec{closed}, "[closed]"},
	} {
		s := newScene(closed)
		s.SetGroups(tc.groups)
		s.SetAutoscaler(&AutoscalerStatus{Written: s.now, Groups: map[string]AutoscalerGroup{"asg": {Most: 5}}})
		s.group()
		s.after(time.Minute)
		s.reject(tc.by, 0, "no")
		got := []string{}
		for _, g := range s.Groups(s.now, nil) {
			if len(g.Vetoes) > 0 {
				got = append(got, g.Name)
			}
		}
		if fmt.Sprint(got) != tc.want {
			t.Errorf("%s rejects a Pod where the groups are %d: %v, want %s", tc.by, len(tc.groups), got, tc.want)
		}
	}
}

func TestHowLongARejectionShowsThatTheAutoscalerRuns(t *testing.T) {
	s := newScene(ofKarpenter(func(s *Spec) { s.MaxNodes = ptr(int32(5)) }))
	s.group()
	rejected := func() bool { return s.Rejected("desktops", browser, s.now) }
	if rejected() || s.Rejected("none", browser, s.now) {
		t.Error("before any")
	}
	s.reject(Karpenter, 0, "no")
	s.SetGroups([]Spec{ofKarpenter(func(s *Spec) { s.MaxNodes = ptr(int32(6)) })})
	if s.after(repeated - time.Second); !rejected() {
		t.Error("a change of the group does not make it unknown whether the autoscaler runs")
	}
	if s.after(time.Second); rejected() {
		t.Error("one that has not been repeated")
	}
}

// event returns an event of Pod p at a time after start.
func event(reason, message string, after time.Duration, change ...func(*corev1.Event)) corev1.Event {
	e := corev1.Event{Reason: reason, Message: message, LastTimestamp: metav1.NewTime(start.Add(after))}
	e.InvolvedObject.UID = "p"
	for _, c := range change {
		c(&e)
	}
	return e
}

func TestRejectionsOf(t *testing.T) {
	const byKarpenter = `Failed to schedule pod, incompatible with nodepool "general", no instance type met the requirements`
	const byScaler = "pod didn't trigger scale-up: 1 Insufficient cpu, 2 node(s) didn't match Pod's node affinity/selector"
	for _, tc := range []struct {
		name   string
		events []corev1.Event
		want   string
	}{
		{name: "none"},
		{name: "Karpenter's", events: []corev1.Event{event("FailedScheduling", byKarpenter, 0)},
			want: `Karpenter 0s: incompatible with nodepool "general", no instance type met the requirements`},
		{name: "kube-scheduler's", events: []corev1.Event{event("FailedScheduling", "0/3 nodes are available: 3 Insufficient cpu.", 0)}},
		{name: "cluster-autoscaler's", events: []corev1.Event{event("NotTriggerScaleUp", byScaler, 0)},
			want: "cluster-autoscaler 0s: 1 Insufficient cpu, 2 node(s) didn't match Pod's node affinity/selector"},
		{name: "its older text", events: []corev1.Event{event("NotTriggerScaleUp", "pod didn't trigger scale-up (it wouldn't fit if a new node is added): 1 Insufficient memory.", 0)},
			want: "cluster-autoscaler 0s: 1 Insufficient memory"},
		{name: "of a group at its limit", events: []corev1.Event{event("NotTriggerScaleUp", "pod didn't trigger scale-up: 1 max node group size reached, 2 not ready for scale-up", 0)}},
		{name: "of a group at its limit, and of one that is too small", events: []corev1.Event{event("NotTriggerScaleUp", "pod didn't trigger scale-up: 1 max node group size reached, 1 Insufficient cpu", 0)},
			want: "cluster-autoscaler 0s: 1 max node group size reached, 1 Insufficient cpu (limited)"},
		{name: "of an autoscaler at its limit", events: []corev1.Event{event("NotTriggerScaleUp", "pod didn't trigger scale-up: 1 max cluster cpu limit reached", 0)},
			want: "cluster-autoscaler 0s: 1 max cluster cpu limit reached (limited)"},
		{name: "of a group in backoff, after a rejection", events: []corev1.Event{
			event("NotTriggerScaleUp", "pod didn't trigger scale-up: 1 in backoff after failed scale-up", time.Second), event("NotTriggerScaleUp", byScaler, 0)}},
		{name: "after it was in backoff", events: []corev1.Event{
			event("NotTriggerScaleUp", "pod didn't trigger scale-up: 1 in backoff after failed scale-up", 0), event("NotTriggerScaleUp", byScaler, time.Second)},
			want: "cluster-autoscaler 1s: 1 Insufficient cpu, 2 node(s) didn't match Pod's node affinity/selector"},
		{name: "of a NodePool at its limit", events: []corev1.Event{event("FailedScheduling", `Failed to schedule pod, all available instance types exceed limits for nodepool: "general"`, 0)},
			want: `Karpenter 0s: all available instance types exceed limits for nodepool: "general" (limited)`},
		{name: "the newest", events: []corev1.Event{event("NotTriggerScaleUp", byScaler, time.Second), event("NotTriggerScaleUp", "pod didn't trigger scale-up: last", time.Minute), event("NotTriggerScaleUp", byScaler, 0)},
			want: "cluster-autoscaler 1m0s: last"},
		{name: "before a node is added", events: []corev1.Event{event("FailedScheduling", byKarpenter, 0), event("Nominated", "Pod should schedule on: nodeclaim/x", time.Second)}},
		{name: "before a node is added, in any order", events: []corev1.Event{
			event("Nominated", "", 2*time.Second), event("Nominated", "", 0), event("FailedScheduling", byKarpenter, time.Second)}},
		{name: "after one was added", events: []corev1.Event{event("FailedScheduling", byKarpenter, time.Minute), event("Nominated", "", time.Second)},
			want: `Karpenter 1m0s: incompatible with nodepool "general", no instance type met the requirements`},
		{name: "what the other autoscaler adds", events: []corev1.Event{event("FailedScheduling", byKarpenter, 0), event("TriggeredScaleUp", "", time.Second)},
			want: `Karpenter 0s: incompatible with nodepool "general", no instance type met the requirements`},
		{name: "both", events: []corev1.Event{event("FailedScheduling", byKarpenter, 0), event("NotTriggerScaleUp", "no", 0)},
			want: `cluster-autoscaler 0s: no; Karpenter 0s: incompatible with nodepool "general", no instance type met the requirements`},
		{name: "a limit of Karpenter", events: []corev1.Event{event("FailedScheduling", `Failed to schedule pod, all available instance types exceed limits for nodepool: "general"`, 0)},
			want: `Karpenter 0s: all available instance types exceed limits for nodepool: "general" (limited)`},
		{name: "of another Pod", events: []corev1.Event{event("FailedScheduling", byKarpenter, 0, func(e *corev1.Event) { e.InvolvedObject.UID = "q" })}},
		{name: "written by events.k8s.io", events: []corev1.Event{event("NotTriggerScaleUp", "no", 0, func(e *corev1.Event) {
			e.LastTimestamp, e.EventTime = metav1.Time{}, metav1.NewMicroTime(start)
			e.Series = &corev1.EventSeries{LastObservedTime: metav1.NewMicroTime(start.Add(time.Minute))}
		})}, want: "cluster-autoscaler 1m0s: no"},
	} {
		var got []string
		for _, r := range RejectionsOf("p", tc.events) {
			text := fmt.Sprintf("%s %s: %s", r.By, r.Time.Sub(start), r.Message)
			if r.Limited {
				text += " (limited)"
			}
			got = append(got, text)
		}
		if s := strings.Join(got, "; "); s != tc.want {
			t.Errorf("%s: got %s\nwant %s", tc.name, s, tc.want)
		}
	}
}

func TestLongRejectionsAreShortened(t *testing.T) {
	all := RejectionsOf(types.UID("p"), []corev1.Event{event("NotTriggerScaleUp", strings.Repeat("größer ", 200), 0)})
	if got := all[0].Message; len(got) > maxRejection+len(" …") || !strings.HasSuffix(got, "größer …") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
	all = RejectionsOf(types.UID("p"), []corev1.Event{event("NotTriggerScaleUp", "a"+strings.Repeat("ö", 400), 0)})
	if got := all[0].Message; len(got) > maxRejection+len(" …") || !strings.HasSuffix(got, "ö …") {
		t.Errorf("one word: %s", got)
	}
}
