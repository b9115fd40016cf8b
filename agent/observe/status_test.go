package observe

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

var noon = time.Date(2030, 1, 2, 12, 0, 0, 500, time.UTC)

func complete(p *corev1.Pod) Children {
	return Children{Home: pvc(), Pod: p, Service: &corev1.Service{}, Ingress: &networkingv1.Ingress{}}
}

func TestReadyStatus(t *testing.T) {
	a := assignment()
	since := metav1.NewTime(noon.Add(-time.Minute).Truncate(time.Second))
	s := Status(a, complete(pod(with(corev1.PodCondition{
		Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: since}))), noon)
	if !Ready(s) {
		t.Fatalf("not ready: %+v", s.Conditions)
	}
	s.Conditions = nil
	want := api.SessionAssignmentStatus{
		ObservedGeneration: 1, State: api.AssignmentActive, StartTime: &since, NodeName: "n1",
	}
	if d := cmp.Diff(want, s); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if len(a.Status.Conditions) != 0 {
		t.Error("the status that was passed is changed")
	}
}

// Behind a door an endpoint is complete without an Ingress.
func TestAnEndpointBehindADoor(t *testing.T) {
	c := complete(pod(readyPod))
	c.Ingress, c.Door = nil, true
	if s := Status(assignment(), c, noon); !Ready(s) {
		t.Errorf("not ready: %+v", s.Conditions)
	}
	c.Service.DeletionTimestamp = &metav1.Time{Time: noon}
	if s := Status(assignment(), c, noon); Ready(s) {
		t.Error("ready while its Service is being deleted")
	}
	c.Service = nil
	if s := Status(assignment(), c, noon); Ready(s) {
		t.Error("ready without a Service")
	}
}

func TestStartTimeIsTheFirst(t *testing.T) {
	a := assignment()
	a.Status = Status(a, complete(pod(readyPod)), noon)
	first := *a.Status.StartTime
	a.Status = Status(a, complete(pod()), noon.Add(time.Hour))
	a.Status = Status(a, complete(pod(readyPod)), noon.Add(2*time.Hour))
	if !a.Status.StartTime.Equal(&first) {
		t.Errorf("startTime moved from %s to %s", first, a.Status.StartTime)
	}
	if got := meta.FindStatusCondition(a.Status.Conditions, api.ConditionPodReady).LastTransitionTime; !got.Equal(&metav1.Time{Time: noon.Add(2 * time.Hour).Truncate(time.Second)}) {
		t.Errorf("PodReady became true at %s", got)
	}
	if got := meta.FindStatusCondition(a.Status.Conditions, api.ConditionHomeReady).LastTransitionTime; !got.Equal(&metav1.Time{Time: noon.Truncate(time.Second)}) {
		t.Errorf("HomeReady was true all along, its transition is of %s", got)
	}
}

func TestMessageBeginsWithTheFailure(t *testing.T) {
	cases := map[string]struct {
		f    Children
		want string
	}{
		"all waits": {Children{}, api.ReasonBinding},
		"trouble":   {Children{Pod: pod(wait("ErrImagePull", "x"))}, api.ReasonImagePull},
		"endpoint":  {Children{Home: pvc(), Pod: pod(readyPod)}, api.ReasonEndpointPending},
		"nothing":   {complete(pod(readyPod)), ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := Status(assignment(), c.f, noon)
			if s.Reason != c.want || (s.Message == "") != (c.want == "") {
				t.Errorf("reason %q, message %q, want reason %q", s.Reason, s.Message, c.want)
			}
		})
	}
}

func TestStopping(t *testing.T) {
	a := assignment()
	a.Status = Status(a, complete(pod(readyPod)), noon)
	s := Stopping(a, Children{Pod: pod(deletedPod)}, nil, noon.Add(time.Minute))
	if s.State != api.AssignmentStopping || s.Message != "The Pod is being stopped by node n1." || s.NodeName != "n1" {
		t.Errorf("state %s, message %q, node %q", s.State, s.Message, s.NodeName)
	}
	if Ready(s) || !meta.IsStatusConditionTrue(s.Conditions, api.ConditionHomeReady) {
		t.Errorf("conditions: %+v", s.Conditions)
	}
	if gone := Stopping(a, Children{}, nil, noon); gone.NodeName != "" || gone.Message == s.Message {
		t.Errorf("without a Pod: %+v", gone)
	}
}

func TestStoppingReportsWhatIsLeft(t *testing.T) {
	for name, c := range map[string]struct {
		f       Children
		left    []string
		reason  string
		message string
	}{
		"a Pod":            {Children{Pod: pod(deletedPod)}, []string{"Ingress x"}, api.ReasonPodTerminating, "The Pod is being stopped by node n1."},
		"a Pod, node lost": {Children{Pod: pod(deletedPod), PodNode: PodNode{NodeLost: true}}, nil, api.ReasonNodeLost, lost(Children{Pod: pod()})},
		"something else":   {Children{}, []string{"Ingress x", "Service y"}, api.ReasonPodTerminating, "The Pod is gone, the other objects are being removed: Ingress x; Service y."},
		"much":             {Children{}, []string{strings.Repeat("x", 2000)}, api.ReasonPodTerminating, ""},
	} {
		s := Stopping(assignment(), c.f, c.left, noon)
		if s.Reason != c.reason || c.message != "" && s.Message != c.message || len(s.Message) > 1000 {
			t.Errorf("%s: %s, %q", name, s.Reason, s.Message)
		}
		if got := meta.FindStatusCondition(s.Conditions, api.ConditionPodReady); got.Reason != c.reason || got.Status != metav1.ConditionFalse {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestConfigIsTheMembers(t *testing.T) {
	a := assignment(func(a *api.SessionAssignment) {
		a.Spec.Desktop.Files = []api.ConfigFile{{Name: "f", Content: "x"}}
	})
	f := Children{Config: render.ConfigMap(a)}
	want := Status(a, f, noon).Config
	if want == nil || want.Name != a.Name || len(want.Hash) != configHashLength {
		t.Fatalf("the ConfigMap is reported as %+v", want)
	}
	f.Config.Data["f"] = "y"
	if got := Status(a, f, noon).Config; got.Hash == want.Hash {
		t.Error("with drift it has the same hash")
	}
	f.ConfigProblem = &Problem{Reason: api.ReasonConflict}
	if got := Status(a, f, noon).Config; got != nil {
		t.Errorf("another's ConfigMap is reported as the agent's: %+v", got)
	}
	a.Status.Config = want
	if got := Status(a, Children{}, noon).Config; got != nil {
		t.Errorf("without one: %+v", got)
	}
}

func TestMissingSecretsAreListedUntilTheyAreThere(t *testing.T) {
	a := assignment()
	a.Status = Status(a, Children{Secrets: []string{"a", "b"}}, noon)
	if d := cmp.Diff([]string{"a", "b"}, a.Status.MissingSecrets); d != "" {
		t.Error(d)
	}
	if got := Status(a, Children{}, noon).MissingSecrets; len(got) != 0 {
		t.Errorf("all are there, and missing are %v", got)
	}
}

func TestTextIsCutBetweenCharacters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		most := rapid.IntRange(3, 40).Draw(t, "most")
		got := truncate(text, most)
		if len(got) > most && got != text || !utf8.ValidString(got) || len(text) <= most && got != text {
			t.Errorf("%q cut to %d is %q", text, most, got)
		}
		if head, short := strings.CutSuffix(got, "…"); got != text && (!short || !strings.HasPrefix(text, head)) {
			t.Errorf("%q cut to %d is %q", text, most, got)
		}
	})
}

// Reporting the same children twice changes nothing, and every condition has a reason and a
// message.
func TestStatusSettles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, f := assignment(), Children{}
		if rapid.Bool().Draw(t, "suspended") {
			suspended(a)
		}
		f.Home = rapid.SampledFrom([]*corev1.PersistentVolumeClaim{nil, pvc(), pvc(pendingClaim), pvc(lostClaim), pvc(deletedClaim)}).Draw(t, "home")
		f.Pod = rapid.SampledFrom([]*corev1.Pod{nil, pod(), pod(readyPod), pod(deletedPod), pod(unbind), pod(wait("ErrImagePull", ""))}).Draw(t, "pod")
		if rapid.Bool().Draw(t, "failed") {
			hasFailed(a)
		}
		f.NodeLost = rapid.Bool().Draw(t, "node lost")
		f.Secrets = rapid.SampledFrom([][]string{nil, {"a"}}).Draw(t, "secrets")
		f.Config = rapid.SampledFrom([]*corev1.ConfigMap{nil, {Data: map[string]string{"a": "b"}}}).Draw(t, "config")
		f.Route = rapid.SampledFrom([]*gatewayv1.HTTPRoute{nil, route()}).Draw(t, "route")
		f.PodProblem = rapid.SampledFrom([]*Problem{nil, {Reason: api.ReasonConflict, Message: "conflict"}}).Draw(t, "problem")
		a.Status = Status(a, f, noon)
		later := Status(a, f, noon.Add(time.Hour))
		if !equality.Semantic.DeepEqual(a.Status, later) {
			t.Errorf("an hour later, nothing new:\n%s", cmp.Diff(a.Status, later))
		}
		for _, kind := range Kinds {
			if c := meta.FindStatusCondition(later.Conditions, kind); c == nil || c.Reason == "" || c.Message == "" {
				t.Errorf("condition %s: %+v", kind, c)
			}
		}
		if (later.Message == "") != Ready(later) {
			t.Errorf("message %q, ready %t", later.Message, Ready(later))
		}
	})
}
