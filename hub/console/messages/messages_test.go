package messages

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// reviewOnly are reasons of PlacementReviews alone, which users never see.
var reviewOnly = map[string]bool{v1alpha1.ReasonSessionNotFound: true, v1alpha1.ReasonTooManyReviews: true}

// Every reason that the API documents for a condition of sessions has a sentence for users, and no sentence
// is for a reason that does not exist.
func TestEveryReasonHasASentence(t *testing.T) {
	reasons := sessionReasons(t)
	for reason := range reasons {
		if _, ok := sentences[reason]; !ok && !reviewOnly[reason] {
			t.Errorf("reason %s has no sentence: a user of a session with it reads only %q", reason, unknown)
		}
	}
	for reason := range sentences {
		if !reasons[reason] && reason != v1alpha1.ReasonDraining {
			t.Errorf("there is a sentence for reason %s, which no condition of a session has", reason)
		}
	}
}

// A sentence is for people: it names nothing of Kubernetes and no field.
func TestSentencesNameNothingOfACluster(t *testing.T) {
	for reason, sentence := range sentences {
		for _, word := range []string{"kubectl", "spec.", "status.", "Pod", "Secret", "namespace", "node", "member", "cluster", "session", "template", "claim"} {
			if strings.Contains(sentence, word) {
				t.Errorf("%s: %q contains %q", reason, sentence, word)
			}
		}
		if !strings.HasSuffix(sentence, ".") {
			t.Errorf("%s: %q is no sentence", reason, sentence)
		}
	}
}

// sessionReasons returns the reasons in api/v1alpha1/conditions.go that precede those of a MemberCluster.
func sessionReasons(t *testing.T) map[string]bool {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../../api/v1alpha1/conditions.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, decl := range file.Decls {
		block, ok := decl.(*ast.GenDecl)
		if !ok || block.Tok != token.CONST || !strings.HasPrefix(block.Doc.Text(), "Reasons of") {
			continue
		}
		if strings.HasPrefix(block.Doc.Text(), "Reasons of a MemberCluster") {
			break
		}
		for _, spec := range block.Specs {
			value, err := strconv.Unquote(spec.(*ast.ValueSpec).Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			out[value] = true
		}
	}
	if len(out) < 60 {
		t.Fatalf("only %d reasons were found", len(out))
	}
	return out
}

// at is when the conditions of these tests changed.
var at = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)

// session returns a session with conditions: "Ready=False/Starting/message" and the like.
func session(conditions ...string) *v1alpha1.VDISession {
	s := &v1alpha1.VDISession{Spec: v1alpha1.SessionSpec{User: "alice", Template: "browser"}}
	for _, c := range conditions {
		kind, rest, _ := strings.Cut(c, "=")
		parts := strings.SplitN(rest, "/", 3)
		s.Status.Conditions = append(s.Status.Conditions, metav1.Condition{
			Type: kind, Status: metav1.ConditionStatus(parts[0]), Reason: parts[1], Message: parts[2], LastTransitionTime: metav1.NewTime(at),
		})
	}
	return s
}

const (
	accepted  = "Accepted=True/Accepted/"
	scheduled = "Scheduled=True/Placed/"
	stored    = "Assigned=True/Stored/"
	home      = "HomeReady=True/NoHome/"
	pod       = "PodReady=True/PodReady/"
	endpoint  = "EndpointReady=True/EndpointReady/"
)

// placed places a session.
func placed(s *v1alpha1.VDISession) *v1alpha1.VDISession {
	s.Status.Epoch = 1
	s.Status.Placement = &v1alpha1.Placement{ClusterName: "eu-west-1", Region: "eu-west", Epoch: 1, FailoverMode: v1alpha1.FailoverRestart}
	return s
}

func with(s *v1alpha1.VDISession, change func(*v1alpha1.VDISession)) *v1alpha1.VDISession {
	change(s)
	return s
}

func TestView(t *testing.T) {
	eight := &v1alpha1.TemplateSpec{Timeout: v1alpha1.TimeLimit{Default: "1h", Max: "8h"}}
	full := &v1alpha1.TemplateSpec{Timeout: v1alpha1.TimeLimit{Max: "1h"}}
	suspended := func(s *v1alpha1.VDISession) { s.Spec.OperatingMode = v1alpha1.ModeSuspended }
	ends := func(s *v1alpha1.VDISession) {
		end := metav1.NewTime(at.Add(time.Hour))
		s.Status.ExpirationTime = &end
	}
	for name, tc := range map[string]struct {
		session  *v1alpha1.VDISession
		template *v1alpha1.TemplateSpec
		state    State
		sentence string
		details  string
		steps    string
		actions  []Action
	}{
		"just created": {
			session(), eight, Waiting, text(v1alpha1.ReasonAccepted), "", "current next next next", []Action{End},
		},
		"not accepted": {
			session("Accepted=False/UserNotAllowed/not for alice", "Ready=False/UserNotAllowed/not for alice"), eight,
			Failed, text(v1alpha1.ReasonUserNotAllowed), "not for alice", "problem next next next", []Action{End},
		},
		"no capacity": {
			session(accepted, "Scheduled=False/Unschedulable/0/3 members fit", "Ready=False/Unschedulable/0/3 members fit"), eight,
			Waiting, text(v1alpha1.ReasonUnschedulable), "0/3 members fit", "done current next next", []Action{End},
		},
		"a node is added": {
			placed(session(accepted, scheduled, stored, home, "PodReady=False/NodeProvisioning/group a", "Ready=False/NodeProvisioning/group a")), eight,
			Starting, text(v1alpha1.ReasonNodeProvisioning), "group a", "done done done current", []Action{End},
		},
		"running without a limit": {
			placed(session(accepted, scheduled, stored, home, pod, endpoint, "Ready=True/Ready/the desktop is ready")), nil,
			Running, "", "", "", []Action{Open, Suspend, End},
		},
		"running, may be extended": {
			with(placed(session(accepted, scheduled, stored, home, pod, endpoint, "Ready=True/Ready/the desktop is ready")), ends), eight,
			Running, "", "", "", []Action{Open, Extend, Suspend, End},
		},
		"running at its template's maximum, about to end": {
			with(placed(session(accepted, scheduled, stored, home, pod, endpoint, "Ready=True/ExpiringSoon/ends soon")), ends), full,
			Running, text(v1alpha1.ReasonExpiringSoon), "ends soon", "", []Action{Open, Suspend, End},
		},
		"running and unused": {
			placed(session(accepted, scheduled, stored, home, "PodReady=True/IdleSoon/unused", endpoint, "Ready=True/ExpiringSoon/unused")), full,
			Running, text(v1alpha1.ReasonIdleSoon), "unused", "", []Action{Open, Suspend, End},
		},
		"a change that was not accepted": {
			placed(session("Accepted=False/TimeoutExceedsMaximum/9h", scheduled, stored, home, pod, endpoint, "Ready=True/Ready/the desktop is ready")), eight,
			Running, unchanged + text(v1alpha1.ReasonTimeoutExceedsMaximum), "9h", "", []Action{Open, Suspend, End},
		},
		"suspended": {
			with(placed(session(accepted, scheduled, "Ready=False/Suspended/suspended")), suspended), eight,
			Suspended, text(v1alpha1.ReasonSuspended), "suspended", "", []Action{Wake, End},
		},
		"its time is over": {
			placed(session(accepted, scheduled, "Ready=False/TimeExpired/over")), eight,
			Ended, text(v1alpha1.ReasonTimeExpired), "over", "", []Action{Extend, End},
		},
		"its time is over, and no more is allowed": {
			placed(session(accepted, scheduled, "Ready=False/TimeExpired/over")), full,
			Ended, text(v1alpha1.ReasonTimeExpired), "over", "", []Action{End},
		},
		"unused for too long": {
			placed(session(accepted, scheduled, "Progressing=False/IdleExpired/unused", "Ready=False/IdleExpired/unused")), eight,
			Ended, text(v1alpha1.ReasonIdleExpired), "unused", "", []Action{Retry, End},
		},
		"failed permanently": {
			placed(session(accepted, scheduled, stored, home, "PodReady=False/OutOfMemory/killed", "Progressing=False/OutOfMemory/killed", "Ready=False/OutOfMemory/killed")), eight,
			Failed, failures[v1alpha1.ReasonOutOfMemory], "killed", "done done done problem", []Action{Retry, End},
		},
		"its region does not answer": {
			placed(session(accepted, scheduled, stored, home, pod, endpoint, "Ready=Unknown/MemberUnreachable/since noon")), eight,
			Interrupted, text(v1alpha1.ReasonMemberUnreachable), "since noon", "", []Action{End},
		},
		"its region does not answer, and it must not run twice": {
			with(placed(session(accepted, scheduled, stored, home, pod, endpoint, "Ready=Unknown/FailoverPending/since noon")), func(s *v1alpha1.VDISession) {
				s.Status.Placement.FailoverMode = v1alpha1.FailoverHold
			}), eight,
			Interrupted, held, "since noon", "", []Action{End},
		},
		"being deleted": {
			with(placed(session(accepted, scheduled, "Ready=False/Terminating/being deleted")), func(s *v1alpha1.VDISession) {
				now := metav1.NewTime(at)
				s.DeletionTimestamp = &now
			}), eight,
			Ending, text(v1alpha1.ReasonTerminating), "being deleted", "", nil,
		},
		"a reason of a later version": {
			placed(session(accepted, scheduled, stored, "Ready=False/Brewing/tea")), eight,
			Starting, unknown, "tea", "done done current next", []Action{End},
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := Of(tc.session, tc.template)
			var progress []string
			for _, step := range v.Steps {
				progress = append(progress, string(step.Progress))
			}
			if v.State != tc.state || v.Sentence != tc.sentence || v.Details != tc.details || strings.Join(progress, " ") != tc.steps {
				t.Errorf("view is %s %q (%q) with steps %v", v.State, v.Sentence, v.Details, progress)
			}
			if diff := cmp.Diff(tc.actions, v.Actions); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExtended(t *testing.T) {
	for name, tc := range map[string]struct {
		timeout v1alpha1.Duration
		limit   v1alpha1.TimeLimit
		want    v1alpha1.Duration
		ok      bool
	}{
		"by an hour":                    {"2h", v1alpha1.TimeLimit{Max: "8h"}, "3h0m0s", true},
		"from the template's default":   {"", v1alpha1.TimeLimit{Default: "30m"}, "1h30m0s", true},
		"up to the template's maximum":  {"7h30m", v1alpha1.TimeLimit{Max: "8h"}, "8h0m0s", true},
		"not beyond it":                 {"8h", v1alpha1.TimeLimit{Max: "8h"}, "8h0m0s", false},
		"not without a limit":           {"0s", v1alpha1.TimeLimit{Max: "8h", Unlimited: true}, "", false},
		"not if the template sets none": {"", v1alpha1.TimeLimit{}, "", false},
	} {
		s := &v1alpha1.VDISession{Spec: v1alpha1.SessionSpec{Timeout: tc.timeout}}
		if got, ok := Extended(s, &v1alpha1.TemplateSpec{Timeout: tc.limit}); got != tc.want || ok != tc.ok {
			t.Errorf("%s: %s, %v, want %s, %v", name, got, ok, tc.want, tc.ok)
		}
	}
	if _, ok := Extended(&v1alpha1.VDISession{}, nil); ok {
		t.Error("a session whose template is gone may be extended")
	}
}
