package fence

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/boottime"
)

// member is an API server whose refusals the test decides, and a keeper in it.
type member struct {
	t    *testing.T
	api  client.WithWatch
	k    *Keeper
	now  boottime.Instant
	boot string
	// refuse answers a write of a kind instead of the API server, or after it has
	// done it.
	refuse, lose func(o client.Object) error
	writes       atomic.Int64
	// late are assignments that the cache shows, and the API server does not.
	late []v1alpha1.SessionAssignment
}

func newMember(t *testing.T, objects ...client.Object) *member {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	m := &member{t: t, now: at(1000), boot: "first"}
	m.api = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.SessionAssignment{}).Build()
	m.restart()
	return m
}

func (m *member) write(o client.Object, do func() error) error {
	if m.refuse != nil {
		if err := m.refuse(o); err != nil {
			return err
		}
	}
	m.writes.Add(1)
	if err := do(); err != nil || m.lose == nil {
		return err
	}
	return m.lose(o)
}

// restart has a new process of the agent.
func (m *member) restart() {
	c := interceptor.NewClient(m.api, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return m.write(o, func() error { return c.Create(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return m.write(o, func() error { return c.Update(ctx, o, opts...) })
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			if all, ok := list.(*v1alpha1.SessionAssignmentList); ok {
				all.Items = append(all.Items, m.late...)
			}
			return err
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return m.write(o, func() error { return c.SubResource(sub).Patch(ctx, o, patch, opts...) })
		},
	})
	m.k = NewKeeper(m.api, c, "agents", 1)
	m.k.Clock, m.k.BootID = func() boottime.Instant { return m.now }, func() (string, error) { return m.boot, nil }
}

func (m *member) wait(d time.Duration) {
	m.now = boottime.Instant{Boot: m.now.Boot + d, Wall: m.now.Wall.Add(d)}
}

// steps of the keeper, until it has nothing more to do.
func (m *member) steps() {
	for range 5 {
		_ = m.k.step(m.t.Context())
	}
}

// renew grants a renewal, which is not sent before the record was read.
func (m *member) renew() {
	if m.k.lease == nil {
		m.steps()
	}
	m.k.Sending()(length)
	m.steps()
}

func (m *member) state(want State) {
	m.t.Helper()
	m.k.Require()
	if got := m.k.Status().State; got != want {
		m.t.Errorf("the lease is %d, want %d", got, want)
	}
}

func (m *member) lapse(name string, want int64) {
	m.t.Helper()
	var a v1alpha1.SessionAssignment
	if err := m.api.Get(m.t.Context(), types.NamespacedName{Namespace: "team", Name: name}, &a); err != nil {
		m.t.Fatal(err)
	}
	if a.Status.Lapse != want {
		m.t.Errorf("%s bears lapse %d, want %d", name, a.Status.Lapse, want)
	}
}

func guardedOne(name string, change ...func(*v1alpha1.SessionAssignment)) *v1alpha1.SessionAssignment {
	a := &v1alpha1.SessionAssignment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID(name)},
		Spec:       v1alpha1.SessionAssignmentSpec{FailoverMode: v1alpha1.FailoverFence},
		Status:     v1alpha1.SessionAssignmentStatus{Guarded: true},
	}
	for _, c := range change {
		c(a)
	}
	return a
}

func TestNothingIsWrittenWithoutFenceSessions(t *testing.T) {
	m := newMember(t, guardedOne("web", func(a *v1alpha1.SessionAssignment) {
		a.Spec.FailoverMode, a.Status.Guarded = v1alpha1.FailoverRestart, false
	}))
	for range 100 {
		m.renew()
		m.wait(100 * time.Second)
	}
	if n := m.writes.Load(); n != 0 {
		t.Errorf("%d writes", n)
	}
	m.renew()
	m.state(Unknown) // It was not required before: it is not durable.
	m.steps()
	m.state(Valid)
	if n := m.writes.Load(); n != 1 {
		t.Errorf("%d writes for the first that requires it", n)
	}
}

func TestALapseMarksTheAffectedAssignments(t *testing.T) {
	m := newMember(t,
		guardedOne("one"), guardedOne("two", func(a *v1alpha1.SessionAssignment) { a.Spec.Lapse, a.Status.Lapse = 6, 6 }),
		guardedOne("unguarded", func(a *v1alpha1.SessionAssignment) { a.Status.Guarded = false }),
		guardedOne("restart", func(a *v1alpha1.SessionAssignment) { a.Spec.FailoverMode = v1alpha1.FailoverRestart }))
	m.steps()
	m.state(Over) // There never was a lease.
	m.renew()
	m.state(Valid)
	for name, want := range map[string]int64{"one": 7, "two": 7, "unguarded": 0, "restart": 0} {
		m.lapse(name, want)
	}
	m.wait(length)
	m.state(Over)
	m.steps()
	m.lapse("one", 7) // No mark before the hub is reachable: it may be taken for more than it is.
	m.renew()
	m.lapse("one", 8)
	m.state(Valid)
}

func TestNoLeaseCountsBeforeAllBearTheMark(t *testing.T) {
	m := newMember(t, guardedOne("one"), guardedOne("two"))
	m.refuse = func(o client.Object) error {
		if o.GetName() == "two" {
			return apierrors.NewServiceUnavailable("later")
		}
		return nil
	}
	m.renew()
	m.renew()
	m.lapse("one", 1)
	m.state(Over)

	m.restart() // Amid marking.
	m.renew()
	m.state(Over)
	m.refuse = nil
	m.steps()
	m.lapse("two", 1)
	m.lapse("one", 1)
	m.state(Valid)
}

func TestNoLeaseCountsBeforeTheCacheShowsWhatIsWithdrawn(t *testing.T) {
	withdrawn := guardedOne("two", func(a *v1alpha1.SessionAssignment) {
		a.Finalizers, a.DeletionTimestamp = []string{v1alpha1.AssignmentFinalizer}, &metav1.Time{Time: time.Now()}
	})
	for name, test := range map[string]struct{ there, late []*v1alpha1.SessionAssignment }{
		"it is gone, and was the only one": {nil, []*v1alpha1.SessionAssignment{guardedOne("two")}},
		"it is gone":                       {[]*v1alpha1.SessionAssignment{guardedOne("one")}, []*v1alpha1.SessionAssignment{guardedOne("two")}},
		"it is being stopped":              {[]*v1alpha1.SessionAssignment{guardedOne("one"), withdrawn}, []*v1alpha1.SessionAssignment{guardedOne("two")}},
	} {
		t.Run(name, func(t *testing.T) {
			var there []client.Object
			for _, a := range test.there {
				there = append(there, a)
			}
			m := newMember(t, there...)
			for _, a := range test.late {
				m.late = append(m.late, *a)
			}
			m.renew()
			m.state(Over)
			m.renew()
			m.state(Over)
			m.late = nil
			m.steps()
			m.state(Valid)
		})
	}
}

func TestALapseThatCannotBeWrittenIsRetried(t *testing.T) {
	m := newMember(t, guardedOne("one"))
	m.renew()
	m.state(Valid)
	m.wait(length)
	m.refuse = func(o client.Object) error {
		if _, ok := o.(*corev1.ConfigMap); ok {
			return apierrors.NewServiceUnavailable("later")
		}
		return nil
	}
	m.renew()
	m.state(Over)
	m.restart()
	m.refuse = nil
	m.renew()
	m.lapse("one", 2)
	m.state(Valid)
}

func TestALostRecordIsALapseWithANumberOfItsOwn(t *testing.T) {
	for name, spoil := range map[string]func(*corev1.ConfigMap){
		"deleted": nil,
		"changed": func(m *corev1.ConfigMap) { m.Data[keyLength] = "long" },
		"emptied": func(m *corev1.ConfigMap) { m.Data = nil },
	} {
		t.Run(name, func(t *testing.T) {
			m := newMember(t, guardedOne("one"))
			m.renew()
			m.lapse("one", 1)
			record := &corev1.ConfigMap{}
			if err := m.api.Get(t.Context(), types.NamespacedName{Namespace: "agents", Name: ConfigMapName}, record); err != nil {
				t.Fatal(err)
			}
			var err error
			if spoil == nil {
				err = m.api.Delete(t.Context(), record)
			} else {
				spoil(record)
				err = m.api.Update(t.Context(), record)
			}
			if err != nil {
				t.Fatal(err)
			}
			m.restart()
			m.steps()
			m.state(Over)
			m.renew()
			m.lapse("one", 2)
			m.state(Valid)
		})
	}
}

func TestAnAnswerThatIsLostIsNotAnothersRecord(t *testing.T) {
	m := newMember(t, guardedOne("one"))
	m.lose = func(client.Object) error { return apierrors.NewTimeoutError("lost", 1) }
	m.renew()
	m.lose = nil
	m.steps()
	m.lapse("one", 1)
	m.state(Valid)

	// Another process leads, whose write is not overwritten.
	other := m.k
	m.restart()
	m.wait(length)
	m.renew()
	m.lapse("one", 2)
	m.k = other
	m.renew()
	if err := other.step(t.Context()); err == nil || !strings.Contains(err.Error(), "record of the lease") {
		t.Errorf("error %v", err)
	}
	m.state(Over)
	m.lapse("one", 2)
}

func TestALeaseOutlivesARebootByTheWallClock(t *testing.T) {
	m := newMember(t, guardedOne("one"))
	m.renew()
	m.wait(time.Minute)
	m.boot, m.now.Boot = "second", time.Second
	m.restart()
	m.steps()
	m.state(Valid)
	if got := m.k.Status().Left; got != 110*time.Second {
		t.Errorf("%s are left, want 180s less a minute and the skew", got)
	}
	m.wait(110 * time.Second)
	m.state(Over)
}
