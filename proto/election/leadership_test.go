package election

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/vdi-fleet/vdi-fleet/proto/boottime"
)

// fakeLock is an API server's Lease: writes take a while, and may fail.
type fakeLock struct {
	resourcelock.Interface
	clock  *time.Duration
	takes  time.Duration
	fails  error
	holder string
	// during is called during a write of written.
	during  func()
	written resourcelock.LeaderElectionRecord
}

func (l *fakeLock) Identity() string { return "us" }

func (l *fakeLock) Describe() string { return "vdi-system/lock" }

func (l *fakeLock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return &resourcelock.LeaderElectionRecord{HolderIdentity: l.holder}, nil, l.fails
}

func (l *fakeLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, record)
}

func (l *fakeLock) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	*l.clock += l.takes
	l.written = record
	if l.during != nil {
		l.during()
	}
	if l.fails == nil {
		l.holder = record.HolderIdentity
	}
	return l.fails
}

// watched is a Leadership on a clock that the test moves.
func watched() (*Leadership, *fakeLock, resourcelock.Interface) {
	clock := 100 * time.Hour // a machine that has been up for a while
	leadership := &Leadership{now: func() boottime.Instant {
		return boottime.Instant{Boot: clock, Wall: time.Unix(0, 0).Add(clock)}
	}}
	lock := &fakeLock{clock: &clock}
	return leadership, lock, leadership.Lock(lock)
}

func heldBy(holder string) resourcelock.LeaderElectionRecord {
	return resourcelock.LeaderElectionRecord{HolderIdentity: holder, LeaseDurationSeconds: 15}
}

func expect(t *testing.T, leadership *Leadership, leading bool) {
	t.Helper()
	if leadership.Leading() != leading {
		t.Errorf("leading is %v", !leading)
	}
}

func TestLeadershipLeadsForTheLocksDurationLessAMarginSinceTheRenewalWasSent(t *testing.T) {
	leadership, inner, lock := watched()
	expect(t, leadership, false)

	inner.takes = 4 * time.Second
	if err := lock.Create(t.Context(), heldBy("us")); err != nil {
		t.Fatal(err)
	}
	*inner.clock += 8*time.Second - 1
	expect(t, leadership, true)
	*inner.clock++ // 12 s since it was sent
	expect(t, leadership, false)

	inner.takes = 0
	if err := lock.Update(t.Context(), heldBy("us")); err != nil {
		t.Fatal(err)
	}
	*inner.clock += 12*time.Second - 1
	expect(t, leadership, true)
	*inner.clock++
	expect(t, leadership, false)
}

func TestLeadershipGoesByTheDurationThatTheOthersRead(t *testing.T) {
	leadership, inner, lock := watched()
	short := heldBy("us")
	short.LeaseDurationSeconds = 5
	if err := lock.Update(t.Context(), short); err != nil {
		t.Fatal(err)
	}
	*inner.clock += 4 * time.Second
	expect(t, leadership, false)
}

func TestLeadershipOfAMachineThatWasSuspendedDoesNotLead(t *testing.T) {
	leadership, inner, lock := watched()
	if err := lock.Update(t.Context(), heldBy("us")); err != nil {
		t.Fatal(err)
	}
	*inner.clock += 9 * time.Hour
	expect(t, leadership, false)

	// Suspended during the renewal, whose answer is outdated.
	inner.takes = 9 * time.Hour
	if err := lock.Update(t.Context(), heldBy("us")); err != nil {
		t.Fatal(err)
	}
	expect(t, leadership, false)
}

func TestLeadershipGainsNothingByARenewalThatFailed(t *testing.T) {
	leadership, inner, lock := watched()
	if err := lock.Update(t.Context(), heldBy("us")); err != nil {
		t.Fatal(err)
	}
	*inner.clock += 11 * time.Second
	inner.fails = errors.New("timeout")
	if err := lock.Update(t.Context(), heldBy("us")); err == nil {
		t.Error("the elector gets no error")
	}
	expect(t, leadership, true)
	*inner.clock += time.Second
	expect(t, leadership, false)
}

func TestLeadershipEndsBeforeTheLockIsReleased(t *testing.T) {
	leadership, inner, lock := watched()
	if err := lock.Update(t.Context(), heldBy("us")); err != nil {
		t.Fatal(err)
	}
	expect(t, leadership, true)
	written := false
	inner.during = func() {
		written = true
		expect(t, leadership, false)
	}
	if err := lock.Update(t.Context(), heldBy("")); err != nil {
		t.Fatal(err)
	}
	if !written {
		t.Error("the lock was not written")
	}
	expect(t, leadership, false)
}

func TestLeadershipEndsWhenAnotherHoldsTheLock(t *testing.T) {
	leadership, inner, lock := watched()
	if err := lock.Update(t.Context(), heldBy("us")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := lock.Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect(t, leadership, true)
	inner.holder = "another"
	if _, _, err := lock.Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect(t, leadership, false)
}

func TestTheLockOfAnotherIsNotReleased(t *testing.T) {
	leadership, inner, lock := watched()
	if err := lock.Update(t.Context(), heldBy("us")); err != nil {
		t.Fatal(err)
	}
	// After a pause another replica has the lock. The elector reads it, so that it has its
	// version, and tries to release it.
	inner.holder = "another"
	if _, _, err := lock.Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := lock.Update(t.Context(), heldBy("")); !errors.Is(err, ErrNotLeading) {
		t.Errorf("answered %v", err)
	}
	if inner.holder != "another" {
		t.Errorf("the lock is held by %q, and its holder's lead has ended", inner.holder)
	}
	expect(t, leadership, false)

	// The lock may be acquired again when it is free.
	inner.holder = ""
	if _, _, err := lock.Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := lock.Update(t.Context(), heldBy("us")); err != nil {
		t.Fatal(err)
	}
	expect(t, leadership, true)
	if _, _, err := lock.Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := lock.Update(t.Context(), heldBy("")); err != nil || inner.holder != "" {
		t.Errorf("the own lock is not released: %v, held by %q", err, inner.holder)
	}
}

func TestAHubWithoutElectionAlwaysLeads(t *testing.T) {
	expect(t, Always(), true)
}

// body records whether it was closed.
type body struct {
	io.Reader
	closed bool
}

func (b *body) Close() error { b.closed = true; return nil }

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestOnlyALeaderWrites(t *testing.T) {
	const sessions = "/apis/vdi.kasm.io/v1alpha1/namespaces/desktops/vdisessions"
	for _, test := range []struct {
		method, path string
		always       bool
	}{
		{http.MethodGet, sessions, true},
		{http.MethodHead, sessions, true},
		{http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", true},
		{http.MethodPost, "/apis/authentication.k8s.io/v1/tokenreviews", true},
		{http.MethodPost, sessions, false},
		{http.MethodPut, sessions + "/a/status", false},
		{http.MethodPatch, sessions + "/a", false},
		{http.MethodDelete, sessions + "/a", false},
		{http.MethodDelete, sessions, false},
		{http.MethodPost, "/api/v1/namespaces/desktops/events", false},
		{http.MethodPost, "/apis/authorization.k8s.io.example.com/v1/grants", false},
	} {
		leadership, _, lock := watched()
		sent := 0
		cfg := &rest.Config{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
			sent++
			return &http.Response{StatusCode: http.StatusOK}, nil
		})}
		leadership.Wrap(cfg)
		client, err := rest.TransportFor(cfg)
		if err != nil {
			t.Fatal(err)
		}
		send := func() (*body, error) {
			b := &body{Reader: bytes.NewReader(nil)}
			request, err := http.NewRequest(test.method, "https://hub"+test.path, b)
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.RoundTrip(request)
			return b, err
		}
		b, err := send()
		switch {
		case test.always && (err != nil || sent != 1):
			t.Errorf("%s %s: %v, sent %d times", test.method, test.path, err, sent)
		case !test.always && (!errors.Is(err, ErrNotLeading) || sent != 0 || !b.closed):
			t.Errorf("%s %s of one that does not lead: %v, sent %d times, body closed: %v", test.method, test.path, err, sent, b.closed)
		}
		sent = 0
		if err := lock.Update(t.Context(), heldBy("us")); err != nil {
			t.Fatal(err)
		}
		if _, err := send(); err != nil || sent != 1 {
			t.Errorf("%s %s of the leader: %v, sent %d times", test.method, test.path, err, sent)
		}
	}
}

// A hypervisor stops the boot clock too.
func TestLeadershipOfAMachineThatWasPausedDoesNotLead(t *testing.T) {
	now := boottime.Instant{Boot: 100 * time.Hour, Wall: time.Unix(0, 0)}
	leadership := &Leadership{now: func() boottime.Instant { return now }}
	clock := time.Duration(0)
	lock := leadership.Lock(&fakeLock{clock: &clock})
	if err := lock.Update(t.Context(), heldBy("us")); err != nil {
		t.Fatal(err)
	}
	now.Wall = now.Wall.Add(12*time.Second + wallSkew - 1)
	expect(t, leadership, true)
	now.Wall = now.Wall.Add(1)
	expect(t, leadership, false)
	now.Wall = now.Wall.Add(-time.Hour) // setting it back gains nothing
	now.Boot += 12 * time.Second
	expect(t, leadership, false)
}
