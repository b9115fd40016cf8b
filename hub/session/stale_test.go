package session

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/assignment"
	"github.com/vdi-fleet/vdi-fleet/hub/failover"
	"github.com/vdi-fleet/vdi-fleet/hub/member"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/hub/scheduling"
	"github.com/vdi-fleet/vdi-fleet/hub/secret"
	"github.com/vdi-fleet/vdi-fleet/hub/session/index"
	"github.com/vdi-fleet/vdi-fleet/hub/template"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

// unusedFleet has the methods that are not called on oneMember.
type unusedFleet struct{ Fleet }

// oneMember is a fleet that places everything in one member.
type oneMember struct {
	// withholds is set if it allows no withdrawal without a durable cause.
	withholds bool
	unusedFleet
	drainage
	placed   []int64
	released int
	// evaluating is set if a member has yet to report whether it can run the template.
	evaluating bool
	// resumed lists the epoch and number of requested runs; full is set if there is no capacity.
	resumed [][2]int64
	full    bool
	// frees is set if what is released is free to resume.
	frees bool
	// other is set if sessions are placed in another member, away if the first is unreachable.
	other, away bool
	// nowhere is set if nothing is placed.
	nowhere bool
	// refused are the members that the last request excluded, with the reason.
	refused map[types.UID]string

	// verdict is that on a session whose member is lost, by the requested mode; gone
	// are the members that were removed.
	verdict func(failover.Session) failover.Verdict
	gone    map[types.UID]bool
	// requested is the last request to reschedule a session.
	requested failover.Session
}

// decider is the verdict on a member's sessions.
type decider func(failover.Session) failover.Verdict

func (j decider) Decide(s failover.Session) failover.Verdict { return j(s) }

func (f *oneMember) FailoverOf(member types.UID) failover.Decider {
	if f.verdict == nil || member != sessiontest.Here {
		return failover.Facts{}
	}
	return decider(f.verdict)
}

func (f *oneMember) Failover(req placement.Request, s failover.Session, from types.UID, epoch int64) (placement.Decision, failover.Verdict) {
	f.requested = s
	v := f.FailoverOf(from).Decide(s)
	if !v.Due || v.Wait > 0 {
		return placement.Decision{Reason: v1alpha1.ReasonFailoverPending, Message: v.Message}, v
	}
	return f.Place(req, epoch), v
}

func (f *oneMember) State(uid types.UID) member.State {
	state := member.State{
		Spec:  v1alpha1.MemberClusterSpec{IngressScheme: "https", IngressDomain: "of-" + string(uid) + ".example.com"},
		Known: true, Health: health.Ready, Gone: f.gone[uid], LastHeartbeat: sessiontest.Now.Add(-time.Minute),
		Drain: f.drainOf(uid), Failover: f.FailoverOf(uid),
	}
	if f.away {
		state.Health = health.Unreachable
	}
	return state
}

func (f *oneMember) Gone(member types.UID) bool { return f.gone[member] }

func (f *oneMember) Listen(func(member.Change)) {}

func (f *oneMember) Slots(placement.Request, []types.UID, int64) int64 { return 0 }

func (f *oneMember) ResumeSlots(placement.Request, types.UID, int64) int64 { return 0 }

func (f *oneMember) ReportedAt(types.UID) time.Time { return time.Time{} }

func (f *oneMember) Evaluating(placement.TemplateKey) bool { return f.evaluating }

func (f *oneMember) Place(req placement.Request, epoch int64) placement.Decision {
	f.placed, f.refused = append(f.placed, epoch), req.Refused
	if f.nowhere {
		return placement.Decision{Reason: v1alpha1.ReasonUnschedulable, Message: "2 clusters: 2 lack cpu"}
	}
	if f.other {
		return placement.Decision{Placed: true, Cluster: v1alpha1.ClusterRef{Name: "us", UID: sessiontest.Elsewhere}, Reason: v1alpha1.ReasonPlaced, Message: "us has capacity"}
	}
	return placement.Decision{Placed: true, Cluster: v1alpha1.ClusterRef{Name: "eu", UID: sessiontest.Here}, Reason: v1alpha1.ReasonPlaced, Message: "eu has capacity"}
}

func (f *oneMember) RefOf(name string) (v1alpha1.ClusterRef, bool) {
	uid, ok := map[string]types.UID{"eu": sessiontest.Here, "us": sessiontest.Elsewhere}[name]
	if !ok {
		uid = types.UID(strings.TrimPrefix(name, "name-of-"))
	}
	return v1alpha1.ClusterRef{Name: name, UID: uid}, true
}

func (f *oneMember) Release(types.UID) {
	f.released++
	f.full = f.full && !f.frees
}

func (f *oneMember) Observe(*v1alpha1.VDISession, bool) {}

func (f *oneMember) MayWithdraw(types.UID, types.UID) bool { return !f.withholds }

func (f *oneMember) Withdrawn(types.UID, types.UID) {}

func (f *oneMember) Recovering() bool { return false }

func (f *oneMember) Reserve(*v1alpha1.VDISession, int64, int64, types.UID) {}

func (f *oneMember) Ended(types.UID, int64, types.UID) {}

func (f *oneMember) Ordered(types.UID, int64, types.UID, string) {}

func (f *oneMember) Resume(_ placement.Request, member v1alpha1.ClusterRef, epoch, run int64) (placement.Decision, bool) {
	f.resumed = append(f.resumed, [2]int64{epoch, run})
	if f.full {
		return placement.Decision{Message: "eu lacks cpu"}, f.away
	}
	return placement.Decision{Placed: true, Cluster: member, Reason: v1alpha1.ReasonPlaced, Message: "eu: 1 slot left"}, false
}

// hubInMemory is a Reconciler with a client that may read outdated sessions, and whose
// writes of a status may fail.
type hubInMemory struct {
	*WithT
	*Reconciler
	fleet     *oneMember
	scheduler *scheduling.Scheduler
	// member "eu", which is not connected unless a test has it report.
	member *memberInMemory
	api    client.Client
	// cached is what Get returns instead of what is stored; nil if the same.
	cached *v1alpha1.VDISession
	// answer is the error of a write of a status; written is set if it was applied nevertheless.
	answer  error
	written bool
}

func newHubInMemory(t *testing.T) *hubInMemory {
	h := &hubInMemory{WithT: NewWithT(t), fleet: &oneMember{}}
	scheme := runtime.NewScheme()
	h.Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	h.Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	browser := &v1alpha1.VDITemplate{}
	browser.Name, browser.Spec.Image, browser.Spec.Port = "browser", "browser:1", 80
	s := sessiontest.With()
	s.Status.Epoch = 0
	s.Finalizers = []string{v1alpha1.Finalizer}
	h.api = fake.NewClientBuilder().WithScheme(scheme).WithObjects(browser, s).WithStatusSubresource(s).Build()
	cached := interceptor.NewClient(h.api.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if into, ok := o.(*v1alpha1.VDISession); ok && h.cached != nil {
				h.cached.DeepCopyInto(into)
				return nil
			}
			return c.Get(ctx, key, o, opts...)
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			if h.answer != nil && !h.written {
				return h.answer
			}
			if err := c.SubResource(sub).Update(ctx, o, opts...); err != nil {
				return err
			}
			return h.answer
		},
	})
	h.member = &memberInMemory{away: true}
	revisions := template.NewRevisions(cached, "vdi-system")
	orders := &assignment.Orders{State: h.fleet.State, Revisions: revisions, Proofs: &assignment.Proofs{Client: h.api, Live: h.api, Namespace: "vdi-system"}, Secrets: &secret.Manager{Client: h.api, Live: h.api, Namespace: "vdi-system"}}
	h.scheduler = scheduling.New(scheduling.Options{Cache: h.fleet, Members: h.fleet, Clock: clockOf{h}})
	h.Reconciler = &Reconciler{
		Scheduler: h.scheduler,
		Client:    cached, Live: h.api, Cached: index.Of(s), Recorder: events.NewFakeRecorder(100), Fleet: h.fleet, Reservations: h.fleet, Members: h.member, Orders: orders,
		Departures: &assignment.Departures{}, Clock: clock.RealClock{},
	}
	return h
}

// reconcile reconciles the session, and again as long as the scheduler decides on its
// requests. Nothing is decided from an earlier answer.
func (h *hubInMemory) reconcile() (ctrl.Result, error) {
	mine := types.NamespacedName{Namespace: "desktops", Name: "mine"}
	h.scheduler.Forget(mine)
	for {
		result, err := h.Reconcile(context.Background(), ctrl.Request{NamespacedName: mine})
		if err != nil || !h.decided() {
			return result, err
		}
	}
}

// decided reports whether the scheduler has decided on sessions.
func (h *hubInMemory) decided() (any bool) {
	for h.scheduler.Step(func(types.NamespacedName) { any = true }) {
	}
	return any
}

// clockOf is the current clock of a hub, which tests replace.
type clockOf struct{ h *hubInMemory }

func (c clockOf) Now() time.Time                  { return c.h.Clock.Now() }
func (c clockOf) Since(t time.Time) time.Duration { return c.h.Clock.Since(t) }

func (h *hubInMemory) stored() *v1alpha1.VDISession {
	s := &v1alpha1.VDISession{}
	h.Expect(h.api.Get(context.Background(), types.NamespacedName{Namespace: "desktops", Name: "mine"}, s)).To(Succeed())
	return s
}

func TestStaleCachePlacesNothing(t *testing.T) {
	h := newHubInMemory(t)
	old := h.stored()
	_, err := h.reconcile()
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(h.stored().Status.Placement.Epoch).To(Equal(int64(1)))
	h.cached = old
	result, err := h.reconcile()
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(result.RequeueAfter).To(BeNumerically(">", 0), "and is reconciled again")
	h.Expect(h.fleet.placed).To(Equal([]int64{1}))
	h.Expect(h.fleet.released).To(BeZero(), "the capacity of the first decision is in use")
}

func TestNothingIsDecidedOrWrittenWhileMembersEvaluateTheTemplate(t *testing.T) {
	h := newHubInMemory(t)
	h.fleet.evaluating = true
	before := h.stored()
	result, err := h.reconcile()
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(result.RequeueAfter).To(Equal(evaluationPoll))
	h.Expect(h.fleet.placed).To(BeEmpty())
	h.Expect(h.stored().ResourceVersion).To(Equal(before.ResourceVersion))

	h.fleet.evaluating = false
	_, err = h.reconcile()
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(h.fleet.placed).To(Equal([]int64{1}))
}

func TestDecisionThatIsNotWritten(t *testing.T) {
	sessions := schema.GroupResource{Group: v1alpha1.GroupName, Resource: "vdisessions"}
	for _, c := range []struct {
		name     string
		answer   error
		written  bool
		released int
	}{
		{"a conflict", apierrors.NewConflict(sessions, "mine", errors.New("changed")), false, 1},
		{"it is not allowed", apierrors.NewForbidden(sessions, "mine", errors.New("no")), false, 1},
		{"an unknown outcome, and it was not stored", errors.New("connection reset"), false, 0},
		{"an unknown outcome, and it was stored", errors.New("connection reset"), true, 0},
		{"the API server timed out", apierrors.NewTimeoutError("slow", 1), true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHubInMemory(t)
			h.answer, h.written = c.answer, c.written
			_, err := h.reconcile()
			h.Expect(err != nil).To(Equal(!apierrors.IsConflict(c.answer)), "got %v", err)
			h.Expect(h.fleet.released).To(Equal(c.released))
			h.answer = nil
			_, err = h.reconcile()
			h.Expect(err).NotTo(HaveOccurred())
			h.Expect(h.stored().Status.Epoch).To(Equal(int64(1)), "the number was not used up")
			want := []int64{1, 1}
			if c.written {
				want = want[:1]
			}
			h.Expect(h.fleet.placed).To(Equal(want))
		})
	}
}
