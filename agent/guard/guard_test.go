package guard

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/vdi-fleet/vdi-fleet/agent/fence"
	"github.com/vdi-fleet/vdi-fleet/agent/render"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/boottime"
)

// factor scales the timings of the lease.
const factor = 0.02

// agent is an Endpoint that serves on loopback, and a lease that the test ends.
type agent struct {
	t        *testing.T
	client   client.Client
	url      string
	endpoint *Endpoint
	stop     func()
	// ordered has the epochs that it was the first to store.
	ordered map[types.UID]int64
	// refuse answers writes of a status instead of the API server; cached is the endpoint's
	// cached assignment, if set.
	refuse func() error
	cached *api.SessionAssignment
	writes atomic.Int32

	mu sync.Mutex
	// until is when the lease ends.
	until time.Duration
}

func newAgent(t *testing.T, objects ...client.Object) *agent {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, api.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	a := &agent{t: t, refuse: func() error { return nil }}
	a.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&api.SessionAssignment{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if into, ok := o.(*api.SessionAssignment); ok && a.cached != nil {
					a.cached.DeepCopyInto(into)
					return nil
				}
				return c.Get(ctx, key, o, opts...)
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
				if err := a.refuse(); err != nil {
					return err
				}
				err := c.SubResource(sub).Patch(ctx, o, patch, opts...)
				if err == nil {
					a.writes.Add(1)
				}
				return err
			},
		}).Build()
	a.serve("127.0.0.1:0")
	return a
}

func (a *agent) address() string { return strings.TrimPrefix(a.url, "http://") }

func (a *agent) serve(address string) {
	a.t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		a.t.Fatal(err)
	}
	a.serveOn(listener)
}

func (a *agent) serveOn(listener net.Listener) {
	a.t.Helper()
	ready := make(chan struct{})
	a.endpoint = NewEndpoint(EndpointOptions{
		Namespace: "agents", Live: a.client, Client: a.client, TimeFactor: factor,
		KeyKnown: func() { close(ready) }, LeaseStatus: a.leaseStatus,
		Ordered: func(of *api.SessionAssignment) bool { return a.ordered[of.UID] == of.Spec.Epoch && of.Spec.Epoch > 0 },
	})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.endpoint.Serve(ctx, listener) }()
	a.url = "http://" + listener.Addr().String()
	a.stop = sync.OnceFunc(func() {
		stop()
		if err := <-done; err != nil {
			a.t.Error(err)
		}
	})
	a.t.Cleanup(a.stop)
	<-ready
}

// clientOptions are the options of a guard or a gate of the assignment.
func (a *agent) clientOptions() ClientOptions {
	return ClientOptions{
		LeaseURL: a.url, Key: a.endpoint.PublicKey(), Namespace: "team", Name: "web", UID: "assignment", TimeFactor: factor,
	}
}

func (a *agent) lease(left time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.until = boottime.Now() + left
}

func (a *agent) leaseStatus() fence.Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	if left := a.until - boottime.Now(); left > 0 {
		return fence.Status{State: fence.Valid, Left: left}
	}
	return fence.Status{State: fence.Over}
}

func assignment(change ...func(*api.SessionAssignment)) *api.SessionAssignment {
	a := &api.SessionAssignment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web", UID: "assignment"},
		Spec:       api.SessionAssignmentSpec{FailoverMode: api.FailoverFence},
	}
	for _, c := range change {
		c(a)
	}
	return a
}

// guarded is a guard that runs, and what the kubelet receives from it.
type guarded struct {
	t   *testing.T
	url string
}

func (a *agent) guard(change ...func(*Options)) *guarded {
	a.t.Helper()
	desktop, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { _ = desktop.Close() })
	own, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		a.t.Fatal(err)
	}
	port := own.Addr().(*net.TCPAddr).Port
	_ = own.Close()
	o := Options{
		ClientOptions: a.clientOptions(), PodIP: "127.0.0.1", Port: int32(port),
		DesktopPort: int32(desktop.Addr().(*net.TCPAddr).Port), StartTimeout: time.Hour,
	}
	for _, c := range change {
		c(&o)
	}
	g, err := New(o)
	if err != nil {
		a.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	a.t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			a.t.Error(err)
		}
	})
	return &guarded{t: a.t, url: fmt.Sprintf("http://127.0.0.1:%d", port)}
}

// probe is what a kubelet receives.
func (g *guarded) probe(path string) (code int, body string) {
	response, err := http.Get(g.url + path)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(text)
}

// until waits until the kubelet receives a code.
func (g *guarded) until(want int) string {
	g.t.Helper()
	deadline := time.Now().Add(testTimeout)
	for {
		code, body := g.probe(render.PathLease)
		if code == want {
			return body
		}
		if time.Now().After(deadline) {
			g.t.Fatalf("the kubelet receives %d: %s, and not %d", code, body, want)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestADesktopRunsWhileItsAgentGrantsTheLease(t *testing.T) {
	a := newAgent(t, assignment())
	g := a.guard()
	g.until(http.StatusServiceUnavailable)
	a.lease(time.Hour)
	g.until(http.StatusOK)
	if code, body := g.probe(render.PathDesktop); code != http.StatusOK {
		t.Errorf("a desktop that starts gets %d: %s", code, body)
	}
	if code, _ := g.probe("/else"); code != http.StatusNotFound {
		t.Errorf("another path has %d", code)
	}
}

func TestADesktopWhoseAgentCrashedEndsWithTheLease(t *testing.T) {
	a := newAgent(t, assignment())
	g := a.guard()
	a.lease(2 * time.Second)
	g.until(http.StatusOK)
	a.stop()
	if body := g.until(http.StatusServiceUnavailable); !strings.Contains(body, "over") || strings.Contains(body, "nonce") {
		t.Errorf("the kubelet receives %q", body)
	}
	a.serve(a.address())
	a.lease(time.Hour)
	other := a.guard() // which has received an answer once it is ready
	other.until(http.StatusOK)
	if code, _ := g.probe(render.PathDesktop); code != http.StatusServiceUnavailable {
		t.Error("a desktop that is being ended runs again")
	}
}

func TestADesktopOutlivesARestartOfItsAgent(t *testing.T) {
	a := newAgent(t, assignment())
	g := a.guard()
	a.lease(time.Hour)
	g.until(http.StatusOK)
	key := a.endpoint.PublicKey()
	a.stop()
	if code, body := g.probe(render.PathLease); code != http.StatusOK {
		t.Errorf("it ended with its agent: %d, %s", code, body)
	}
	a.serve(a.address())
	if a.endpoint.PublicKey() != key {
		t.Error("the next agent has another key, and all guards would be deaf to it")
	}
	if code, body := g.probe(render.PathDesktop); code != http.StatusOK {
		t.Errorf("it ended with the next one: %d, %s", code, body)
	}
}

func TestDesktopsThatMayRun(t *testing.T) {
	for name, tc := range map[string]struct {
		change  func(*api.SessionAssignment)
		request func(*permissionRequest)
		over    bool
		want    int
	}{
		"a fenced desktop with a lease":     {want: http.StatusOK},
		"one whose lease is over":           {over: true, want: http.StatusForbidden},
		"one that the hub has not affirmed": {change: func(a *api.SessionAssignment) { a.Status.Lapse, a.Spec.Lapse = 3, 2 }, want: http.StatusForbidden},
		"one that the hub has affirmed":     {change: func(a *api.SessionAssignment) { a.Status.Lapse, a.Spec.Lapse = 3, 3 }, want: http.StatusOK},
		"one that is not fenced any more":   {change: func(a *api.SessionAssignment) { a.Spec.FailoverMode = api.FailoverRestart }, over: true, want: http.StatusOK},
		"one of an earlier assignment":      {request: func(q *permissionRequest) { q.uid = "earlier" }, want: http.StatusNotFound},
		"one that is withdrawn":             {change: withdrawn, want: http.StatusNotFound},
		"of no assignment":                  {request: func(q *permissionRequest) { q.name = "other" }, want: http.StatusNotFound},
		"a request that names none":         {request: func(q *permissionRequest) { q.name = "" }, want: http.StatusBadRequest},
		"a request without a nonce":         {request: func(q *permissionRequest) { q.nonce = "" }, want: http.StatusBadRequest},
		"a request that is too long":        {request: func(q *permissionRequest) { q.nonce = strings.Repeat("a", 65) }, want: http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			stored := assignment()
			if tc.change != nil {
				tc.change(stored)
			}
			a := newAgent(t, stored)
			if !tc.over {
				a.lease(time.Hour)
			}
			q := permissionRequest{namespace: "team", name: "web", uid: "assignment", nonce: rand.Text()}
			if tc.request != nil {
				tc.request(&q)
			}
			response, err := http.Get(a.url + leasePath + "?" + q.query())
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if response.StatusCode != tc.want {
				t.Errorf("answered with %s, want %d", response.Status, tc.want)
			}
		})
	}
}

func withdrawn(a *api.SessionAssignment) {
	a.Finalizers = []string{api.AssignmentFinalizer}
	a.DeletionTimestamp = &metav1.Time{Time: time.Now()}
}

// impostor answers in place of the agent, with what it has received from it.
func impostor(t *testing.T, forge func(w http.ResponseWriter, r *http.Request)) string {
	server := httptest.NewServer(http.HandlerFunc(forge))
	t.Cleanup(server.Close)
	return server.URL
}

func TestOnlyTheAgentCanAnswerAGuard(t *testing.T) {
	a := newAgent(t, assignment(), assignment(func(a *api.SessionAssignment) { a.Name, a.UID = "mine", "mine" }))
	a.lease(time.Hour)
	_, own, _ := ed25519.GenerateKey(nil)
	forward := func(q permissionRequest) []byte {
		response, err := http.Get(a.url + leasePath + "?" + q.query())
		if err != nil {
			t.Error(err)
			return nil
		}
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		return text
	}
	replay := forward(permissionRequest{namespace: "team", name: "web", uid: "assignment", nonce: rand.Text()})
	for name, forge := range map[string]func(w http.ResponseWriter, r *http.Request){
		"with an answer that it has recorded": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(replay) },
		"with one for its own desktop": func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write(forward(permissionRequest{namespace: "team", name: "mine", uid: "mine", nonce: r.URL.Query().Get("nonce")}))
		},
		"with more than the agent grants": func(w http.ResponseWriter, r *http.Request) {
			q, _ := parseRequest(r.URL)
			var got answer
			_ = json.Unmarshal(forward(q), &got)
			got.Left *= 2
			_ = json.NewEncoder(w).Encode(got)
		},
		"with a key of its own": func(w http.ResponseWriter, r *http.Request) {
			q, _ := parseRequest(r.URL)
			_ = json.NewEncoder(w).Encode(sign(own, q, time.Hour))
		},
		"with nothing that can be read": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{")) },
	} {
		t.Run(name, func(t *testing.T) {
			key, _ := parsePublic(a.endpoint.PublicKey())
			client := &agentClient{
				url: impostor(t, forge), key: key, request: permissionRequest{namespace: "team", name: "web", uid: "assignment"},
				timeout: testTimeout, client: http.DefaultClient, clock: boottime.Now,
			}
			if left, err := client.sendOnce(t.Context()); err == nil {
				t.Errorf("the guard accepts that %s are left", left)
			}
			client.url = a.url
			if _, left, err := client.send(t.Context()); err != nil || left <= 0 {
				t.Errorf("and not the agent: %s, %v", left, err)
			}
		})
	}
}

func TestAGuardQueriesAnotherReplica(t *testing.T) {
	a := newAgent(t, assignment())
	a.lease(time.Hour)
	var calls int
	follower := impostor(t, func(w http.ResponseWriter, r *http.Request) {
		if calls++; calls < attempts {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
			return
		}
		a.endpoint.ServeHTTP(w, r)
	})
	key, _ := parsePublic(a.endpoint.PublicKey())
	client := &agentClient{
		url: follower, key: key, request: permissionRequest{namespace: "team", name: "web", uid: "assignment"},
		timeout: testTimeout, client: http.DefaultClient, clock: boottime.Now,
	}
	if _, left, err := client.send(t.Context()); err != nil || left <= 0 {
		t.Errorf("after %d calls: %s, %v", calls, left, err)
	}
}
