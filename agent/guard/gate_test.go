package guard

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// testTimeout of the tests.
const testTimeout = 20 * time.Second

func held(change ...func(*api.SessionAssignment)) *api.SessionAssignment {
	return assignment(append([]func(*api.SessionAssignment){func(a *api.SessionAssignment) {
		a.Spec.FailoverMode, a.Spec.Epoch = api.FailoverHold, 4
	}}, change...)...)
}

func lapses(spec, status int64) func(*api.SessionAssignment) {
	return func(a *api.SessionAssignment) { a.Spec.Lapse, a.Status.Lapse = spec, status }
}

// requestStart sends one request, as a gate does, and returns the answer's code.
func (a *agent) requestStart(q permissionRequest) int {
	a.t.Helper()
	q.gate, q.nonce = true, rand.Text()
	response, err := http.Get(a.url + q.path() + "?" + q.query())
	if err != nil {
		a.t.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode
}

var mine = permissionRequest{namespace: "team", name: "web", uid: "assignment"}

func (a *agent) stored() *api.SessionAssignment {
	a.t.Helper()
	var s api.SessionAssignment
	if err := a.client.Get(a.t.Context(), types.NamespacedName{Namespace: "team", Name: "web"}, &s); err != nil {
		a.t.Fatal(err)
	}
	return &s
}

// affirm stores the hub's affirmation, as agent/assignment does.
func (a *agent) affirm(lapse int64) {
	a.t.Helper()
	s := a.stored()
	s.Spec.Lapse = lapse
	if err := a.client.Update(a.t.Context(), s); err != nil {
		a.t.Fatal(err)
	}
}

func TestWhichDesktopMayStart(t *testing.T) {
	for name, tc := range map[string]struct {
		change  func(*api.SessionAssignment)
		ordered int64
		request func(*permissionRequest)
		want    int
		// lapse that is requested of the hub; 0: none is.
		lapse int64
	}{
		"one that this process was ordered to run":      {ordered: 4, want: http.StatusOK},
		"one of which it was ordered an earlier epoch":  {ordered: 3, want: http.StatusForbidden, lapse: 1},
		"one that an earlier process was ordered":       {want: http.StatusForbidden, lapse: 1},
		"one that was affirmed to an earlier process":   {change: lapses(6, 6), want: http.StatusForbidden, lapse: 7},
		"one that an earlier process has requested":     {change: lapses(2, 6), want: http.StatusForbidden, lapse: 7},
		"one that was rescheduled here since":           {change: lapses(6, 2), want: http.StatusForbidden, lapse: 7},
		"one of mode Restart":                           {change: mode(api.FailoverRestart), want: http.StatusOK},
		"one of a hub that names no mode":               {change: mode(""), want: http.StatusOK},
		"one of mode Fence, whose Pod has a guard soon": {change: mode(api.FailoverFence), ordered: 4, want: http.StatusForbidden},
		"one of an earlier assignment":                  {ordered: 4, request: func(q *permissionRequest) { q.uid = "earlier" }, want: http.StatusNotFound},
		"one that is withdrawn":                         {ordered: 4, change: withdrawn, want: http.StatusNotFound},
		"of no assignment":                              {ordered: 4, request: func(q *permissionRequest) { q.name = "other" }, want: http.StatusNotFound},
		"a request that names none":                     {ordered: 4, request: func(q *permissionRequest) { q.name = "" }, want: http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			change := func(*api.SessionAssignment) {}
			if tc.change != nil {
				change = tc.change
			}
			a := newAgent(t, held(change))
			a.ordered = map[types.UID]int64{"assignment": tc.ordered}
			before := a.stored().Status.Lapse
			q := mine
			if tc.request != nil {
				tc.request(&q)
			}
			if code := a.requestStart(q); code != tc.want {
				t.Errorf("answered with %d, want %d", code, tc.want)
			}
			if got := a.stored().Status.Lapse; got != max(before, tc.lapse) {
				t.Errorf("the hub is requested to affirm %d, and was to affirm %d; want %d", got, before, tc.lapse)
			}
		})
	}
}

func mode(m api.FailoverMode) func(*api.SessionAssignment) {
	return func(a *api.SessionAssignment) { a.Spec.FailoverMode = m }
}

// A gate is refused by an agent that has restarted, until the hub has affirmed the
// placement by the number that this agent has requested.
func TestAHeldDesktopWaitsForTheHubOncePerProcess(t *testing.T) {
	a := newAgent(t, held(lapses(5, 5)))
	expect := func(when string, code int, lapse int64, writes int32) {
		t.Helper()
		if got := a.requestStart(mine); got != code {
			t.Errorf("%s: answered with %d, want %d", when, got, code)
		}
		if s := a.stored(); s.Status.Lapse != lapse || a.writes.Load() != writes {
			t.Errorf("%s: the hub is requested to affirm %d, by %d writes; want %d, %d", when, s.Status.Lapse, a.writes.Load(), lapse, writes)
		}
	}
	a.refuse = func() error { return apierrors.NewServiceUnavailable("away") }
	expect("the API server is away", http.StatusForbidden, 5, 0)
	a.refuse = func() error { return nil }
	early := a.stored()
	expect("the first request", http.StatusForbidden, 6, 1)
	expect("the second request", http.StatusForbidden, 6, 1)
	a.affirm(6)
	expect("the hub has affirmed it", http.StatusOK, 6, 1)
	a.stop()
	a.serve("127.0.0.1:0") // another process
	a.cached = early       // its cache is behind: 6 was requested, and affirmed
	if got := a.requestStart(mine); got != http.StatusForbidden {
		t.Errorf("by what an earlier process was permitted it may start: %d", got)
	}
	a.cached = nil
	expect("an agent that has restarted", http.StatusForbidden, 7, 2)
	a.ordered = map[types.UID]int64{"assignment": 4}
	expect("the hub has rescheduled it here", http.StatusOK, 7, 2)
}

// A request that the member's API server has lost is sent again.
func TestALostRequestOfAGateIsSentAgain(t *testing.T) {
	a := newAgent(t, held())
	a.requestStart(mine)
	s := a.stored()
	s.Status.Lapse = 0 // etcd was restored to an earlier time
	if err := a.client.Status().Update(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if code := a.requestStart(mine); code != http.StatusForbidden || a.stored().Status.Lapse != 1 {
		t.Errorf("answered with %d, requested %d", code, a.stored().Status.Lapse)
	}
}

func TestTheMemoryForGatesIsBounded(t *testing.T) {
	const most, many = 3, 10
	a := newAgent(t)
	a.endpoint.affirmations = lru.New(most)
	for i := range many {
		one := held(func(s *api.SessionAssignment) { s.Name = fmt.Sprint(i); s.UID = types.UID(s.Name) })
		if err := a.client.Create(t.Context(), one); err != nil {
			t.Fatal(err)
		}
		a.requestStart(permissionRequest{namespace: "team", name: one.Name, uid: one.Name})
	}
	if left := a.endpoint.affirmations.Len(); left != most {
		t.Errorf("of %d numbers %d are remembered, want %d", many, left, most)
	}
	a.endpoint.affirming.Range(func(assignment, _ any) bool {
		t.Errorf("%v counts as being written", assignment)
		return true
	})
}

// waiting is a gate that waits: its result is sent once it ends.
func waiting(t *testing.T, options ClientOptions) (ended <-chan error, end func()) {
	t.Helper()
	g, err := NewGate(options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	return done, stop
}

func assertOpens(t *testing.T, ended <-chan error) {
	t.Helper()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(testTimeout):
		t.Error("it still waits")
	}
}

func assertWaits(t *testing.T, when string, ended <-chan error) {
	t.Helper()
	select {
	case err := <-ended:
		t.Fatalf("%s: it ended with %v", when, err)
	default:
	}
}

func TestAGateOpensOnceTheHubHasAffirmedThePlacement(t *testing.T) {
	a := newAgent(t, held())
	address := a.address()
	a.stop()
	options := a.clientOptions()
	ended, _ := waiting(t, options)
	other, _ := waiting(t, func() ClientOptions { other := options; other.UID = "earlier"; return other }())

	a.serve(address)
	deadline := time.Now().Add(testTimeout)
	for a.stored().Status.Lapse != 1 {
		if time.Now().After(deadline) {
			t.Fatal("nothing is requested of the hub")
		}
		time.Sleep(5 * time.Millisecond)
	}
	assertWaits(t, "before it is affirmed", ended)
	a.affirm(1)
	assertOpens(t, ended)
	assertWaits(t, "of another assignment", other)
	if a.writes.Load() != 1 {
		t.Errorf("%d writes", a.writes.Load())
	}
}

func TestAGateOpensAtOnceForWhatWasJustOrdered(t *testing.T) {
	a := newAgent(t, held())
	a.ordered = map[types.UID]int64{"assignment": 4}
	ended, _ := waiting(t, a.clientOptions())
	assertOpens(t, ended)
	if a.writes.Load() != 0 {
		t.Error("it has cost a write")
	}
}

// A stopped gate must not exit with code 0, after which a kubelet starts the desktop.
func TestAGateThatIsEndedDoesNotOpen(t *testing.T) {
	ended, end := waiting(t, newAgent(t, held()).clientOptions())
	end()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(testTimeout):
		t.Error("it does not end")
	}
}

func TestOnlyTheAgentOpensAGate(t *testing.T) {
	a := newAgent(t, held(), assignment(func(a *api.SessionAssignment) { a.Name, a.UID = "mine", "mine" }))
	a.lease(time.Hour)
	forward := func(w http.ResponseWriter, q permissionRequest) {
		response, err := http.Get(a.url + q.path() + "?" + q.query())
		if err != nil {
			return
		}
		defer response.Body.Close()
		var got answer
		_ = json.NewDecoder(response.Body).Decode(&got)
		_ = json.NewEncoder(w).Encode(got)
	}
	for name, forge := range map[string]func(w http.ResponseWriter, q permissionRequest){
		"with the answer for its guard": func(w http.ResponseWriter, q permissionRequest) { q.gate = false; forward(w, q) },
		"with one for its own desktop": func(w http.ResponseWriter, q permissionRequest) {
			q.name, q.uid, q.gate = "mine", "mine", false
			forward(w, q)
		},
		"with an answer of its own": func(w http.ResponseWriter, _ permissionRequest) { _, _ = w.Write([]byte(`{"left":1000000000}`)) },
	} {
		t.Run(name, func(t *testing.T) {
			answered := make(chan struct{}, 100)
			options := a.clientOptions()
			options.LeaseURL = impostor(t, func(w http.ResponseWriter, r *http.Request) {
				q, _ := parseRequest(r.URL)
				forge(w, q)
				select {
				case answered <- struct{}{}:
				default:
				}
			})
			ended, _ := waiting(t, options)
			for range 2 * attempts {
				select {
				case <-answered:
				case err := <-ended:
					t.Fatalf("it ended with %v", err)
				}
			}
		})
	}
}

func TestOptionsOfAGate(t *testing.T) {
	good := newAgent(t).clientOptions()
	for want, change := range map[string]func(*ClientOptions){
		"--lease-url":   func(o *ClientOptions) { o.LeaseURL = "a:1" },
		"--key":         func(o *ClientOptions) { o.Key = "AAAA" },
		"--name":        func(o *ClientOptions) { o.Name = "" },
		"--uid":         func(o *ClientOptions) { o.UID = "" },
		"--time-factor": func(o *ClientOptions) { o.TimeFactor = 0 },
	} {
		o := good
		change(&o)
		if _, err := NewGate(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error that names %s, got %v", want, err)
		}
	}
}
