package session

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	"github.com/vdi-fleet/vdi-fleet/agent/render"
	"github.com/vdi-fleet/vdi-fleet/agent/session/children"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// theNode is the state of all nodes for the stage's agent.
type theNode struct{ is observe.Node }

func (n *theNode) Node(string) observe.Node { return n.is }

// desktopOn is a desktop that runs, and its node.
func desktopOn(t *testing.T, change ...func(*api.SessionAssignment)) (*stage, *theNode) {
	t.Helper()
	s, node := newStage(t, desktop(change...)), &theNode{observe.Node{Known: true, Ready: true}}
	s.r.Nodes, s.slow = node, true
	s.pass()
	s.bind()
	s.setPod(func(p *corev1.Pod) {
		makeReady(p)
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: render.DesktopContainer, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	})
	s.pass()
	return s, node
}

// ends is a kubelet's last report.
func ends(p *corev1.Pod) {
	p.Status.Phase, p.Status.Conditions = corev1.PodFailed, nil
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: render.DesktopContainer, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}}
}

// delete as an administrator does, by force where Pods show nothing else of it.
func (s *stage) delete(o client.Object) {
	s.t.Helper()
	s.get(o)
	if err := s.client.Delete(s.t.Context(), o, client.GracePeriodSeconds(0)); err != nil {
		s.t.Fatal(err)
	}
}

func perUserHeld(a *api.SessionAssignment) { held(a); perUser(a) }

func fencedMode(a *api.SessionAssignment) { a.Spec.FailoverMode = api.FailoverFence }

func TestAForcedDeletionIsNoStop(t *testing.T) {
	for name, mode := range map[string]func(*api.SessionAssignment){"Hold": held, "Fence": fencedMode, "a home": perSession, "a user's home": perUserHeld} {
		t.Run(name, func(t *testing.T) {
			s, node := desktopOn(t, mode)
			s.delete(&api.SessionAssignment{})
			s.pass()
			s.delete(&corev1.Pod{})
			for _, state := range []observe.Node{{Known: true, Ready: true}, {Known: true}, {}} {
				node.is = state
				s.after(time.Hour)
				if s.gone(&api.SessionAssignment{}) {
					t.Fatalf("it is reported as stopped, with node %+v", state)
				}
			}
			if a := s.assignment(); a.Status.Reason != api.ReasonNodeLost || !strings.Contains(a.Status.Message, "kubectl annotate pod -n team "+s.key.Name) {
				t.Errorf("%s: %s", a.Status.Reason, a.Status.Message)
			}
			s.setPod(ends)
			s.pass()
			s.after(children.CacheDelay)
			if !s.gone(&corev1.Pod{}) || !s.gone(&api.SessionAssignment{}) {
				t.Error("it does not end though its kubelet has reported the end")
			}
		})
	}
}

func TestAnOperatorMayAssertAStop(t *testing.T) {
	for name, assert := range map[string]func(*stage, *theNode){
		"by a taint": func(_ *stage, n *theNode) { n.is = observe.Node{Known: true, OutOfService: true} },
		"by an annotation of the Pod": func(s *stage, n *theNode) {
			n.is = observe.Node{}
			p := s.thePod()
			p.Annotations[api.AnnotationForceCleanup] = "it burned down"
			if err := s.client.Update(s.t.Context(), p); err != nil {
				s.t.Fatal(err)
			}
		},
		"by an annotation of the assignment": func(s *stage, n *theNode) {
			n.is = observe.Node{Known: true}
			a := s.assignment()
			a.Annotations = map[string]string{api.AnnotationForceCleanup: "it burned down"}
			if err := s.client.Update(s.t.Context(), a); err != nil {
				s.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, node := desktopOn(t, perUserHeld)
			s.delete(&api.SessionAssignment{})
			s.pass()
			assert(s, node)
			s.after(children.CacheDelay)
			s.after(children.CacheDelay)
			if !s.gone(&corev1.Pod{}) || !s.gone(&api.SessionAssignment{}) {
				t.Error("it does not end")
			}
		})
	}
}

// A Pod that was forced away while its session goes on is not made again before it has
// stopped: two would write to one home.
func TestNoPodIsMadeBesideOneThatWasForcedAway(t *testing.T) {
	s, node := desktopOn(t, perUser)
	before := s.thePod().UID
	s.delete(&corev1.Pod{})
	node.is = observe.Node{}
	s.after(time.Hour)
	if s.thePod().UID != before {
		t.Fatal("a second desktop writes to the home")
	}
	s.setPod(ends)
	s.pass()
	s.after(children.CacheDelay)
	if s.thePod().UID == before {
		t.Error("the desktop is not recreated")
	}
}

// A taint of its node is no event of a Pod: one that is kept is reconciled periodically.
func TestAKeptPodIsReconciledForATaintOfItsNode(t *testing.T) {
	s, node := desktopOn(t, held)
	s.delete(&corev1.Pod{})
	node.is = observe.Node{Known: true}
	if wait := s.after(time.Hour); wait <= 0 || wait > nodePoll {
		t.Fatalf("it is reconciled again after %s", wait)
	}
	before := s.thePod().UID
	node.is.OutOfService = true
	s.after(nodePoll)
	s.after(children.CacheDelay)
	if s.thePod().UID == before {
		t.Error("it is kept though its node is out of service")
	}
}

func TestAPodThatNeverHadANodeGoesAtOnce(t *testing.T) {
	s := newStage(t, desktop(held))
	s.r.Nodes = &theNode{}
	s.pass()
	s.delete(&api.SessionAssignment{})
	s.pass()
	s.after(children.CacheDelay)
	s.after(children.CacheDelay)
	if !s.gone(&api.SessionAssignment{}) {
		t.Error("it is waited for")
	}
}

func TestASessionThatMayRunTwiceHasNoFinalizerOnItsPod(t *testing.T) {
	s, _ := desktopOn(t)
	if f := s.thePod().Finalizers; len(f) > 0 {
		t.Errorf("finalizers %v", f)
	}
	s.edit(held)
	s.pass()
	if !hasStopFinalizer(s.thePod()) {
		t.Fatal("none after it became held")
	}
	s.edit(func(a *api.SessionAssignment) { a.Spec.FailoverMode = api.FailoverRestart })
	s.delete(&api.SessionAssignment{})
	s.pass()
	p := s.thePod()
	p.DeletionGracePeriodSeconds = new(int64) // the fake has none
	if err := s.client.Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	s.after(children.CacheDelay)
	s.after(children.CacheDelay)
	if !s.gone(&api.SessionAssignment{}) {
		t.Error("its Pod is kept though it may run twice")
	}
}

func TestAnOrphanedPodIsReleasedOnceItHasStopped(t *testing.T) {
	s, _ := desktopOn(t, held)
	a := s.assignment()
	a.Finalizers = nil
	if err := s.client.Update(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	s.delete(a)
	s.delete(&corev1.Pod{}) // the garbage collector
	s.pass()
	if s.gone(&corev1.Pod{}) {
		t.Fatal("it is gone before it has stopped")
	}
	s.setPod(ends)
	s.pass()
	if !s.gone(&corev1.Pod{}) {
		t.Error("its finalizer is not removed")
	}
}

func TestAnOldKubernetesKeepsNoPod(t *testing.T) {
	for minor, want := range map[string]bool{"32": false, "33": true, "36+": true} {
		s := newStage(t, desktop(held))
		calls := 0
		s.r.ServerVersion = func() (*version.Info, error) { calls++; return &version.Info{Major: "1", Minor: minor}, nil }
		s.pass()
		s.pass()
		if got := slices.Contains(s.thePod().Finalizers, api.PodFinalizer); got != want || calls != 1 {
			t.Errorf("1.%s: kept %t, want %t; %d calls", minor, got, want, calls)
		}
	}
}

func TestALostNodeReleasesSessionsThatMayRunTwice(t *testing.T) {
	s, node := desktopOn(t)
	before := s.thePod().UID
	lost := observe.Node{Known: true, Since: s.clock.Now()}
	node.is = lost
	s.setPod(func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse })
	if s.pass() == 0 {
		t.Error("it is not reconciled again")
	}
	if c := s.condition(api.ConditionPodReady); c.Reason != api.ReasonNodeLost || !strings.Contains(c.Message, "12:05:00") {
		t.Errorf("%s: %s", c.Reason, c.Message)
	}
	s.after(s.r.Options.LostAfter - time.Second)
	if s.thePod().UID != before {
		t.Fatal("it was released too soon")
	}
	s.after(2 * time.Second)
	s.after(children.ConflictRetry)
	if s.gone(&corev1.Pod{}) || s.thePod().UID == before {
		t.Error("it is not recreated")
	}
}

func TestALostNodeReleasesNoOtherSessions(t *testing.T) {
	for name, mode := range map[string]func(*api.SessionAssignment){"Hold": held, "Fence": fencedMode, "a home": perSession} {
		s, node := desktopOn(t, mode)
		before := s.thePod().UID
		node.is = observe.Node{Known: true, Since: s.clock.Now()}
		s.setPod(func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse })
		s.after(time.Hour)
		s.after(time.Hour)
		if s.gone(&corev1.Pod{}) || s.thePod().UID != before {
			t.Errorf("%s: its desktop may run twice", name)
		}
	}
}

func TestALostNodeKeepsNoSessionThatIsDeletedAndMayRunTwice(t *testing.T) {
	s, node := desktopOn(t)
	p := s.thePod()
	p.Finalizers = []string{"example.com/kubelet"} // it does not answer
	if err := s.client.Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	node.is = observe.Node{Known: true, Since: s.clock.Now()}
	s.delete(&api.SessionAssignment{})
	s.pass()
	s.after(s.r.Options.LostAfter - time.Second)
	if s.count("delete Pod") != 1 {
		t.Errorf("%v", s.wrote())
	}
	s.after(2 * time.Second)
	if s.count("delete Pod") != 2 {
		t.Errorf("it was not forced: %v", s.wrote())
	}
}
