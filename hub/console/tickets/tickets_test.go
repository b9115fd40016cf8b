package tickets

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

var key = types.NamespacedName{Namespace: "desktops", Name: "console-abcde"}

// redeemer returns a redeemer at a time, with a ticket of alice and the secret "s3cret".
func redeemer(now time.Time, funcs interceptor.Funcs) *Redeemer {
	scheme := runtime.NewScheme()
	_ = v1alpha1.AddToScheme(scheme)
	ticket := &v1alpha1.AccessTicket{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "1", CreationTimestamp: metav1.NewTime(noon)},
		Spec: v1alpha1.AccessTicketSpec{
			Access: v1alpha1.AccessConsole, User: "alice", Groups: []string{"staff", "system:authenticated"}, Challenge: v1alpha1.TicketChallenge("s3cret"),
		},
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(ticket).WithInterceptorFuncs(funcs).Build()
	return &Redeemer{Client: c, Live: c, Guarded: func() error { return nil }, Clock: clocktesting.NewFakePassiveClock(now)}
}

func TestATicketIsRedeemedOnce(t *testing.T) {
	r := redeemer(noon.Add(time.Second), interceptor.Funcs{})
	spec, err := r.Redeem(context.Background(), key, "s3cret", v1alpha1.AccessConsole)
	if err != nil || spec.User != "alice" || !cmp.Equal(Groups(spec), []string{"staff"}) {
		t.Errorf("%v, %v", spec, err)
	}
	if _, err := r.Redeem(context.Background(), key, "s3cret", v1alpha1.AccessConsole); !errors.Is(err, ErrInvalid) {
		t.Errorf("a second time: %v", err)
	}
}

// Two replicas read the ticket at the same time, and one deletes it.
func TestATicketIsRedeemedOnceByTwoReplicas(t *testing.T) {
	var read sync.WaitGroup
	read.Add(2)
	r := redeemer(noon, interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
		read.Done()
		read.Wait()
		return c.Delete(ctx, o, opts...)
	}})
	results := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := r.Redeem(context.Background(), key, "s3cret", v1alpha1.AccessConsole)
			results <- err
		}()
	}
	first, second := <-results, <-results
	if (first == nil) == (second == nil) || !errors.Is(errors.Join(first, second), ErrInvalid) {
		t.Errorf("%v and %v", first, second)
	}
}

func TestATicketThatIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		now    time.Time
		key    types.NamespacedName
		secret string
		access v1alpha1.TicketAccess
	}{
		"another secret":  {noon, key, "guess", v1alpha1.AccessConsole},
		"no secret":       {noon, key, "", v1alpha1.AccessConsole},
		"the challenge":   {noon, key, v1alpha1.TicketChallenge("s3cret"), v1alpha1.AccessConsole},
		"another access":  {noon, key, "s3cret", "Exec"},
		"no such ticket":  {noon, types.NamespacedName{Namespace: "desktops", Name: "none"}, "s3cret", v1alpha1.AccessConsole},
		"too late":        {noon.Add(v1alpha1.TicketLifetime + leeway + time.Second), key, "s3cret", v1alpha1.AccessConsole},
		"from the future": {noon.Add(-leeway - time.Second), key, "s3cret", v1alpha1.AccessConsole},
	} {
		r := redeemer(tc.now, interceptor.Funcs{})
		if _, err := r.Redeem(context.Background(), tc.key, tc.secret, tc.access); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
		if err := r.Live.Get(context.Background(), key, &v1alpha1.AccessTicket{}); err != nil {
			t.Errorf("%s: the ticket is spent: %v", name, err)
		}
	}
}

func TestNoTicketIsRedeemedWhileTheyAreNotGuarded(t *testing.T) {
	r := redeemer(noon, interceptor.Funcs{})
	r.Guarded = func() error { return errors.New("there is no policy") }
	if _, err := r.Redeem(context.Background(), key, "s3cret", v1alpha1.AccessConsole); err == nil || !strings.Contains(err.Error(), "no policy") {
		t.Error(err)
	}
}

// An API server that does not answer is no invalid ticket: its user tries again.
func TestAnAPIServerThatFails(t *testing.T) {
	broken := errors.New("broken")
	r := redeemer(noon, interceptor.Funcs{Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return broken }})
	if _, err := r.Redeem(context.Background(), key, "s3cret", v1alpha1.AccessConsole); !errors.Is(err, broken) || errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}

func TestGuarded(t *testing.T) {
	forbidden := func(by string) error {
		return apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource("accesstickets").GroupResource(), "x", fmt.Errorf("%s", by))
	}
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"the policy denies it":     {forbidden("ValidatingAdmissionPolicy 'vdi-access-ticket' with binding 'vdi-access-ticket' denied request: a ticket is for the user who creates it"), true},
		"nothing denies it":        {nil, false},
		"RBAC denies it":           {forbidden("User \"vdi-console\" cannot create resource"), false},
		"another policy denies it": {forbidden("ValidatingAdmissionPolicy 'quota' denied request"), false},
		"the API server is away":   {context.DeadlineExceeded, false},
	} {
		var dryRun bool
		r := redeemer(noon, interceptor.Funcs{Create: func(_ context.Context, _ client.WithWatch, _ client.Object, opts ...client.CreateOption) error {
			o := (&client.CreateOptions{}).ApplyOptions(opts)
			dryRun = len(o.DryRun) > 0
			return tc.err
		}})
		if err := Guarded(r.Client, "vdi-system")(context.Background()); (err == nil) != tc.want || !dryRun {
			t.Errorf("%s: %v, dry run %v", name, err, dryRun)
		}
	}
}

func TestTicketsThatNobodyRedeemedAreDeleted(t *testing.T) {
	for age, there := range map[time.Duration]bool{keep: true, keep + time.Second: false} {
		r := redeemer(noon.Add(age), interceptor.Funcs{})
		if err := r.sweep(context.Background()); err != nil {
			t.Fatal(err)
		}
		if err := r.Live.Get(context.Background(), key, &v1alpha1.AccessTicket{}); (err == nil) != there {
			t.Errorf("a ticket that is %s old: %v", age, err)
		}
	}
}
