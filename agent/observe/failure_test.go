package observe

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

var tried = RetryLimits{FailAfter: 5 * time.Minute, Restarts: 5, Endings: 5}

// ago is a time before noon.
func ago(d time.Duration) metav1.Time { return metav1.NewTime(noon.Add(-d)) }

// made so long ago, and bound at once.
func made(d time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.CreationTimestamp = ago(d)
		bound(d)(p)
	}
}

func bound(d time.Duration) func(*corev1.Pod) {
	return with(corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: ago(d)})
}

func restarted(times int32, s corev1.ContainerState) func(*corev1.Pod) {
	oom := corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}
	return state(corev1.ContainerStatus{RestartCount: times, State: s, LastTerminationState: corev1.ContainerState{Terminated: &oom}})
}

func backOff(last *corev1.ContainerStateTerminated, times int32) func(*corev1.Pod) {
	return state(corev1.ContainerStatus{RestartCount: times,
		State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		LastTerminationState: corev1.ContainerState{Terminated: last}})
}

// silent runs since so long and does not answer.
func silent(d time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodRunning
		state(corev1.ContainerStatus{Started: ptr.To(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: ago(d)}}})(p)
	}
}

func TestFailsPermanently(t *testing.T) {
	const long, short = 5 * time.Minute, 5*time.Minute - time.Second
	exit3 := corev1.ContainerStateTerminated{ExitCode: 3}
	oomed := corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}
	evicted := phase(corev1.PodFailed, "Evicted", "low on memory")
	scheduling := with(corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable})
	invalid := &Problem{Reason: api.ReasonApplyFailed, Message: "Pod is invalid", Invalid: true}

	cases := map[string]struct {
		f       Children
		endings int
		ran     bool
		reason  string // empty: not failed
		wait    time.Duration
	}{
		"an image's name":            {f: Children{Pod: pod(made(0), wait("InvalidImageName", ""))}, reason: api.ReasonImagePull},
		"an image that may not":      {f: Children{Pod: pod(made(0), wait("ErrImageNeverPull", ""))}, reason: api.ReasonImagePull},
		"an image, at first":         {f: Children{Pod: pod(made(0), wait("ErrImagePull", ""))}, wait: long},
		"an image, nearly":           {f: Children{Pod: pod(made(short), wait("ErrImagePull", ""))}, wait: time.Second},
		"an image, long":             {f: Children{Pod: pod(made(long), wait("ErrImagePull", ""))}, reason: api.ReasonImagePull},
		"a container, at first":      {f: Children{Pod: pod(made(0), wait("CreateContainerConfigError", ""))}, wait: long},
		"a container, long":          {f: Children{Pod: pod(made(long), wait("CreateContainerConfigError", ""))}, reason: api.ReasonContainerError},
		"a crash loop, at first":     {f: Children{Pod: pod(made(0), backOff(&exit3, 9))}, wait: long},
		"a crash loop, seldom":       {f: Children{Pod: pod(made(time.Hour), backOff(&exit3, 4))}},
		"a crash loop, long":         {f: Children{Pod: pod(made(long), backOff(&exit3, 5))}, reason: api.ReasonCrashLoop},
		"memory, at first":           {f: Children{Pod: pod(made(0), backOff(&oomed, 9))}, wait: long},
		"memory, long":               {f: Children{Pod: pod(made(long), backOff(&oomed, 5))}, reason: api.ReasonOutOfMemory},
		"memory, and starts again":   {f: Children{Pod: pod(made(time.Hour), restarted(9, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}))}},
		"silence, in its time":       {f: Children{Pod: pod(made(time.Hour), silent(9*time.Minute))}, wait: time.Minute},
		"silence, long":              {f: Children{Pod: pod(made(time.Hour), silent(10*time.Minute))}, reason: api.ReasonPodNotReady},
		"silence after it had run":   {f: Children{Pod: pod(made(time.Hour), silent(time.Hour))}, ran: true},
		"evicted, at times":          {f: Children{Pod: pod(made(0), evicted)}, endings: 4},
		"evicted, every time":        {f: Children{Pod: pod(made(0), evicted)}, endings: 5, reason: api.ReasonEvicted},
		"ended, every time":          {f: Children{Pod: pod(made(0), phase(corev1.PodFailed, "", ""))}, endings: 5, reason: api.ReasonPodFailed},
		"a home that is lost":        {f: Children{Home: pvc(lostClaim)}, reason: api.ReasonClaimLost},
		"a home lost under it":       {f: Children{Home: pvc(lostClaim), Pod: pod(made(0))}, reason: api.ReasonClaimLost},
		"a home lost while it runs":  {f: Children{Home: pvc(lostClaim), Pod: pod(readyPod)}},
		"an invalid Pod":             {f: Children{PodProblem: invalid}, reason: api.ReasonApplyFailed},
		"an invalid claim":           {f: Children{HomeProblem: invalid}, reason: api.ReasonApplyFailed},
		"an invalid route":           {f: Children{Pod: pod(made(0)), RouteProblem: invalid}, reason: api.ReasonApplyFailed},
		"an invalid one that runs":   {f: Children{Pod: pod(readyPod), RouteProblem: invalid}},
		"a webhook's no":             {f: Children{PodProblem: &Problem{Reason: api.ReasonApplyFailed, Message: "denied"}}},
		"a name conflict":            {f: Children{PodProblem: &Problem{Reason: api.ReasonConflict}}},
		"a quota":                    {f: Children{PodProblem: &Problem{Reason: api.ReasonQuotaExceeded}}},
		"no node fits":               {f: Children{Pod: pod(unbind, made(time.Hour), scheduling)}},
		"a volume is not bound":      {f: Children{Home: pvc(pendingClaim), Pod: pod(unbind, made(time.Hour))}},
		"a home in use":              {f: Children{Home: pvc(), OtherUser: "other"}},
		"a secret is on its way":     {f: Children{Secrets: []string{"a"}}},
		"a node is lost":             {f: Children{PodNode: PodNode{NodeLost: true}, Pod: pod(made(time.Hour), backOff(&exit3, 9))}},
		"a Pod that is being ended":  {f: Children{Pod: pod(made(time.Hour), deletedPod, wait("ErrImagePull", ""))}},
		"a desktop that runs":        {f: Children{Pod: pod(made(time.Hour), readyPod)}},
		"a desktop that starts":      {f: Children{Pod: pod(made(time.Hour))}},
		"nothing is there yet":       {f: Children{}},
		"a problem beside a restart": {f: Children{Pod: pod(made(long), backOff(&exit3, 5)), BudgetProblem: &Problem{Reason: api.ReasonConflict}}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a := assignment()
			a.Spec.Attempt = 7
			if c.ran {
				a.Status.RunningSince = ptr.To(ago(2 * time.Hour))
			}
			s := Status(a, c.f, noon.Add(-time.Hour))
			got, wait := FailureOf(a, c.f, s, c.endings, tried, noon)
			if (got == nil) != (c.reason == "") || wait != c.wait {
				t.Fatalf("%+v, checks again after %s; want %q and %s", got, wait, c.reason, c.wait)
			}
			if got != nil && (got.Reason != c.reason || got.Attempt != 7 || !strings.HasSuffix(got.Message, ", then raise spec.attempt.")) {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestTimeBeforeTheFailureDoesNotCount(t *testing.T) {
	pulls := wait("ErrImagePull", "")
	sandboxed := with(corev1.PodCondition{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue, LastTransitionTime: ago(time.Minute)})
	late := pod(func(p *corev1.Pod) { p.CreationTimestamp = ago(time.Hour) }, bound(time.Minute), pulls)
	for name, c := range map[string]struct {
		pod        *corev1.Pod
		readyUntil time.Duration
	}{
		"it waited for a node":     {late, time.Hour},
		"it waited for its volume": {pod(made(time.Hour), sandboxed, pulls), time.Hour},
		"it was ready":             {pod(made(time.Hour), pulls), time.Minute},
	} {
		f := Children{Pod: c.pod}
		s := Status(assignment(), f, noon.Add(-c.readyUntil))
		if failure, wait := FailureOf(assignment(), f, s, 0, tried, noon); failure != nil || wait.Round(time.Second) != 4*time.Minute {
			t.Errorf("%s: %+v, checks again after %s", name, failure, wait)
		}
	}
}

func TestASlowDesktopHasItsTime(t *testing.T) {
	a := assignment(func(a *api.SessionAssignment) { a.Spec.Desktop.StartTimeout = "1h" })
	f := Children{Pod: pod(made(time.Hour), silent(time.Hour))}
	if failure, wait := FailureOf(a, f, Status(a, f, noon.Add(-time.Hour)), 0, tried, noon); failure != nil || wait != tried.FailAfter {
		t.Errorf("%+v, checks again after %s", failure, wait)
	}
}

func TestAFailureNamesTheRemedyHoweverLongTheMessageIs(t *testing.T) {
	long := strings.Repeat("ü", 5000)
	for name, f := range map[string]Children{
		"image":     {Pod: pod(made(time.Hour), wait("ErrImagePull", long))},
		"container": {Pod: pod(made(time.Hour), wait("RunContainerError", long))},
		"long name": {Pod: pod(made(time.Hour), wait("ErrImagePull", long), func(p *corev1.Pod) { p.Spec.Containers[0].Image = strings.Repeat("x", 512) })},
		"invalid":   {PodProblem: &Problem{Reason: api.ReasonApplyFailed, Message: long, Invalid: true}},
	} {
		a := assignment()
		s := Status(a, f, noon.Add(-time.Hour))
		failure, _ := FailureOf(a, f, s, 0, tried, noon)
		if failure == nil {
			t.Fatalf("%s: not failed", name)
		}
		Fail(&s, a, failure, noon)
		if !strings.HasSuffix(s.Failure.Message, ", then raise spec.attempt.") {
			t.Errorf("%s: %q", name, s.Failure.Message)
		}
		for _, c := range append(s.Conditions, metav1.Condition{Message: s.Message}, metav1.Condition{Message: s.Failure.Message}) {
			if len(c.Message) > 1000 || strings.ContainsRune(c.Message, '�') {
				t.Errorf("%s: %s has %d bytes: %q", name, c.Type, len(c.Message), c.Message)
			}
		}
	}
}

func TestAFailureIsReportedUntilTheAttemptIsRaised(t *testing.T) {
	a, f := assignment(), Children{Home: pvc(), Pod: pod(made(time.Hour), wait("InvalidImageName", ""))}
	a.Status = Status(a, f, noon)
	failure, _ := FailureOf(a, f, a.Status, 0, tried, noon)
	Fail(&a.Status, a, failure, noon)
	if c := meta.FindStatusCondition(a.Status.Conditions, api.ConditionPodReady); c.Status != metav1.ConditionFalse || c.Reason != api.ReasonPodTerminating {
		t.Errorf("while the Pod is there, PodReady is %+v", c)
	}
	if a.Status.Reason != api.ReasonImagePull || a.Status.Message != failure.Message {
		t.Errorf("the status is %s: %s", a.Status.Reason, a.Status.Message)
	}

	gone := Status(a, Children{Home: pvc()}, noon.Add(time.Minute))
	for _, kind := range []string{api.ConditionPodReady, api.ConditionProgressing} {
		if c := meta.FindStatusCondition(gone.Conditions, kind); c == nil || c.Status != metav1.ConditionFalse || c.Reason != api.ReasonImagePull || c.Message != failure.Message {
			t.Errorf("once the Pod is gone, %s is %+v", kind, c)
		}
	}
	a.Status = gone
	if later := Status(a, Children{Home: pvc()}, noon.Add(time.Hour)); !equality.Semantic.DeepEqual(gone, later) {
		t.Errorf("an hour later:\n%s", cmp.Diff(gone, later))
	}

	a.Spec.Attempt++
	again := Status(a, Children{Home: pvc()}, noon)
	if again.Failure != nil || meta.FindStatusCondition(again.Conditions, api.ConditionProgressing) != nil || again.Reason == api.ReasonImagePull {
		t.Errorf("retried: %+v", again)
	}
}

func TestEveryFailureRuleHasARemedyAndAReason(t *testing.T) {
	for reason, r := range rules {
		if r.remedy == "" || strings.HasSuffix(r.remedy, ".") || len(r.remedy) > maxMessage-maxCause {
			t.Errorf("%s: remedy %q", reason, r.remedy)
		}
		if !IsTrouble(isFalse(api.ConditionPodReady, reason, "")) {
			t.Errorf("%s ends an attempt and is no trouble", reason)
		}
	}
}
