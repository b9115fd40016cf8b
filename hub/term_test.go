package hub

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// leaders is an API server with a leader's lock, which replicas acquire one after the other.
type leaders struct {
	*WithT
	api      client.WithWatch
	recorder *events.FakeRecorder
	now      time.Time
	restored int
	// storing is called before the raise is stored.
	storing func() error
}

func newLeaders(t *testing.T, transitions int32) *leaders {
	l := &leaders{WithT: NewWithT(t), recorder: events.NewFakeRecorder(10), now: time.Unix(1_700_000_000, 0), storing: func() error { return nil }}
	lock := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "vdi-system", Name: "vdi-hub"}}
	lock.Spec.LeaseTransitions = ptr.To(transitions)
	l.api = fake.NewClientBuilder().WithScheme(Scheme()).WithObjects(lock).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if err := l.storing(); err != nil {
				return err
			}
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if err := l.storing(); err != nil {
				return err
			}
			return c.Update(ctx, o, opts...)
		},
	}).Build()
	return l
}

// next returns a replica that begins to lead, some transitions later.
func (l *leaders) next(transitions int32) *hubTerm {
	lock := &coordinationv1.Lease{}
	l.Expect(l.api.Get(context.Background(), client.ObjectKey{Namespace: "vdi-system", Name: "vdi-hub"}, lock)).To(Succeed())
	*lock.Spec.LeaseTransitions += transitions
	l.Expect(l.api.Update(context.Background(), lock)).To(Succeed())
	options := Options{Namespace: "vdi-system", LeaderOptions: LeaderOptions{LeaderElectionID: "vdi-hub", LeaderElect: true}, TimeFactor: 1}
	t := newHubTerm(options, l.api, l.api, l.recorder, func() { l.restored++ })
	t.now = func() time.Time { return l.now }
	l.Expect(t.begin(context.Background())).To(Succeed())
	return t
}

// A replica that could not acquire the Lease of the term in time does not lead.
func TestALeaderThatDoesNotAcquireTheTermInTimeEnds(t *testing.T) {
	l := newLeaders(t, 2)
	term := l.next(0)
	l.storing = func() error { return fmt.Errorf("the API server does not answer: %w", context.DeadlineExceeded) }
	l.Expect(term.begin(context.Background())).To(MatchError(context.DeadlineExceeded))
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	l.storing = func() error { return ended.Err() }
	l.Expect(term.begin(ended)).To(MatchError(context.Canceled))
}

func TestTermRaisedIsStoredFirstAndOutlivesTheLeader(t *testing.T) {
	l := newLeaders(t, 2)
	term := l.next(0)
	l.Expect(term.current.Load()).To(Equal(int64(3)))
	l.storing = func() error {
		l.Expect(term.current.Load()).To(Equal(int64(3)), "it is not used before it is durable")
		return nil
	}
	l.Expect(term.raise(t.Context(), 6)).To(Succeed())
	l.Expect(term.current.Load()).To(Equal(int64(7)))
	l.Expect(l.restored).To(Equal(1))
	l.Expect(<-l.recorder.Events).To(And(HavePrefix("Warning "+v1alpha1.EventTermRaised), ContainSubstring("term 6"), ContainSubstring("has term 7 now")))
	l.Expect(term.raise(t.Context(), 5)).To(Succeed())
	l.Expect(term.current.Load()).To(Equal(int64(7)), "it is above that already")

	l.storing = func() error { return nil }
	second := l.next(1)
	l.Expect(second.current.Load()).To(Equal(int64(8)))
	l.Expect(second.raise(t.Context(), 20)).To(Succeed())
	l.Expect(second.current.Load()).To(Equal(int64(21)))
	l.Expect(l.next(1).current.Load()).To(Equal(int64(22)))
}

func TestTermThatCouldNotBeStoredIsNotRaised(t *testing.T) {
	l := newLeaders(t, 2)
	term := l.next(0)
	l.Expect(term.raise(t.Context(), 6)).To(Succeed())
	broken := errors.New("etcd is away")
	l.storing = func() error { return broken }
	l.Expect(term.raise(t.Context(), 9)).To(MatchError(broken))
	l.Expect(term.current.Load()).To(Equal(int64(7)))
	l.storing = func() error { return nil }
	l.Expect(term.raise(t.Context(), math.MaxInt32+10)).To(MatchError(ContainSubstring("too far")))
	l.Expect(term.current.Load()).To(Equal(int64(7)))
}

func TestANewLeaderSoonAfterARaiseAwaitsTheMembersToo(t *testing.T) {
	l := newLeaders(t, 2)
	l.Expect(l.next(0).raise(t.Context(), 6)).To(Succeed())
	l.restored = 0
	l.now = l.now.Add(5*time.Minute - 1)
	l.next(1)
	l.Expect(l.restored).To(Equal(1))
	l.now = l.now.Add(1)
	l.next(1)
	l.Expect(l.restored).To(Equal(1), "its members have had their time")
}

func TestTermOfAHubWithoutElectionIsRaisedToo(t *testing.T) {
	l := newLeaders(t, 0)
	term := l.next(0)
	term.options.LeaderElect = false
	l.Expect(term.raise(t.Context(), 4)).To(Succeed())
	l.Expect(term.begin(t.Context())).To(Succeed())
	l.Expect(term.current.Load()).To(Equal(int64(5)))
}

// backup copies the leader's lock and the Lease of the term, as a backup of the
// hub's etcd does; restore puts them back.
func (l *leaders) backup() (restore func()) {
	var saved []*coordinationv1.Lease
	for _, name := range []string{"vdi-hub", termLease} {
		lease := &coordinationv1.Lease{}
		l.Expect(l.api.Get(context.Background(), client.ObjectKey{Namespace: "vdi-system", Name: name}, lease)).To(Succeed())
		saved = append(saved, lease)
	}
	return func() {
		for _, lease := range saved {
			l.Expect(l.api.Delete(context.Background(), lease.DeepCopy())).To(Succeed())
			lease.ResourceVersion = ""
			l.Expect(l.api.Create(context.Background(), lease.DeepCopy())).To(Succeed())
		}
	}
}

// A term that an agent received after the backup must be no lower than that with which the
// first leader after a restore begins (link.Term.First), so that it shows the restore.
func TestAnOrderAfterABackupRaisesTheTermBeyondThatOfTheRestoredHub(t *testing.T) {
	for changes := range int32(3) {
		l := newLeaders(t, 2)
		term := l.next(0)
		l.Expect(term.grow(t.Context())).To(Succeed())
		restore := l.backup()
		l.Expect(term.grow(t.Context())).To(Succeed())
		seen := term.current.Load()
		for range changes {
			term = l.next(1)
			l.Expect(term.first.Load()).To(BeNumerically(">", seen), "a leader's terms are above all that were before")
			seen = term.current.Load()
		}
		restore()
		l.Expect(l.next(1).first.Load()).To(BeNumerically("<=", seen), "%d leaders after the backup", changes)
	}
}

func TestTheTermGrowsWithOrdersAloneAndIsStoredFirst(t *testing.T) {
	l := newLeaders(t, 2)
	term := l.next(0)
	term.options.TimeFactor = 1e-4
	writes := 0
	l.storing = func() error {
		writes++
		l.Expect(term.current.Load()).To(Equal(int64(3)), "it is not used before it is durable")
		if writes == 1 {
			return errors.New("etcd is away")
		}
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	term.advance()
	go func() { done <- term.runAdvance(ctx) }()
	l.Eventually(term.current.Load).Should(Equal(int64(4)))
	l.Consistently(term.current.Load, "50ms").Should(Equal(int64(4)), "nothing was ordered since")
	cancel()
	l.Expect(<-done).To(Succeed())
	l.Expect(writes).To(Equal(2), "once in vain")
	l.storing = func() error { return nil }
	l.Expect(l.next(1).current.Load()).To(Equal(int64(5)))
}

func TestAFormerLeaderDoesNotRaiseTheTerm(t *testing.T) {
	l := newLeaders(t, 2)
	first := l.next(0)
	l.Expect(first.grow(t.Context())).To(Succeed())
	second := l.next(1)
	l.Expect(first.grow(t.Context())).To(MatchError(errTermTaken))
	l.Expect(first.raise(t.Context(), 9)).To(MatchError(errTermTaken))
	l.Expect(first.current.Load()).To(Equal(int64(4)))
	l.Expect(first.runAdvance(t.Context())).To(MatchError(errTermTaken), "and it ends")
	l.Expect(second.grow(t.Context())).To(Succeed())
}

// The hub's etcd is restored while the hub runs, which the runbook forbids.
func TestALeaderWhoseTermIsSetBackEnds(t *testing.T) {
	l := newLeaders(t, 2)
	term := l.next(0)
	restore := l.backup()
	l.Expect(term.grow(t.Context())).To(Succeed())
	restore()
	term.advance()
	l.Expect(term.runAdvance(t.Context())).To(MatchError(ContainSubstring("went back from 1 to 0")))
}

func TestARestoreThatAnEpochShowsIsStoredOnce(t *testing.T) {
	l := newLeaders(t, 2)
	term := l.next(0)
	l.Expect(term.Last().Term).To(BeZero())
	l.Expect(term.Detected(t.Context())).To(Succeed())
	l.Expect(term.Detected(t.Context())).To(Succeed())
	l.Expect(term.current.Load()).To(Equal(int64(4)))
	l.Expect(term.Last().Term).To(Equal(int64(4)))
	l.Expect(l.restored).To(Equal(1))

	l.now = l.now.Add(time.Hour)
	second := l.next(1)
	l.Expect(second.Last().Term).To(Equal(int64(4)), "the next leader has the record")
	l.Expect(second.Last().Time).To(BeTemporally("==", l.now.Add(-time.Hour)))
	l.Expect(second.Detected(t.Context())).To(Succeed())
	l.Expect(second.Last().Term).To(Equal(int64(6)), "it was restored once more")
}
