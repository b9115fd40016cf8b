package hub

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/vdi-fleet/vdi-fleet/proto/election"
)

func TestALeaderStepsDownBeforeAnotherMayTakeOver(t *testing.T) {
	for _, factor := range []float64{0.01, 0.05, 0.1, 0.2, 0.3, 1, 1.5, 10} {
		o := Options{TimeFactor: factor}
		lease := o.leaseDuration()
		if lease%time.Second != 0 || lease < o.scaled(leaseDuration) {
			t.Errorf("factor %v: a Lease can't hold %s", factor, lease)
		}
		if deadline := o.renewDeadline(); deadline >= lease || o.scaled(retryPeriod)*6/5 >= deadline {
			t.Errorf("factor %v: lease %s, deadline %s, retry %s", factor, lease, deadline, o.scaled(retryPeriod))
		}
	}
}

// requests is an API server that answers nothing and records its callers.
type requests struct {
	mu  sync.Mutex
	saw []string
}

func (r *requests) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.saw = append(r.saw, request.Method+" "+request.UserAgent())
	http.Error(w, "no", http.StatusNotFound)
}

func (r *requests) seen() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.saw, "\n")
}

func TestAReplicaThatDoesNotLeadWritesOnlyItsLockAndItsLabel(t *testing.T) {
	api := &requests{}
	server := httptest.NewServer(api)
	defer server.Close()
	cfg := &rest.Config{Host: server.URL}
	l, err := newLeader(cfg, Options{
		Namespace: "vdi-system", TimeFactor: 1,
		LeaderOptions: LeaderOptions{LeaderElect: true, LeaderElectionID: "vdi-hub", PodName: "vdi-hub-7"},
	})
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	if _, err := client.CoreV1().Secrets("a").Create(ctx, &corev1.Secret{}, metav1.CreateOptions{}); !errors.Is(err, election.ErrNotLeading) {
		t.Errorf("a Secret was created: %v", err)
	}
	if api.seen() != "" {
		t.Errorf("the API server saw %s", api.seen())
	}
	if _, err := client.CoreV1().Secrets("a").Get(ctx, "b", metav1.GetOptions{}); err == nil || errors.Is(err, election.ErrNotLeading) {
		t.Errorf("reading: %v", err)
	}
	_, _, _ = l.lock.Get(ctx)
	_, _ = l.pods.Patch(ctx, "vdi-hub-7", "application/merge-patch+json", nil, metav1.PatchOptions{})
	for _, want := range []string{
		"GET " + rest.DefaultKubernetesUserAgent() + " vdi-hub-7\n",
		"GET " + rest.DefaultKubernetesUserAgent() + " vdi-hub-7/leader-election\n",
		"PATCH " + rest.DefaultKubernetesUserAgent() + " vdi-hub-7/hub-role",
	} {
		if !strings.Contains(api.seen(), want) {
			t.Errorf("the API server saw %s\nwithout %s", api.seen(), want)
		}
	}
	if !strings.HasPrefix(l.lock.Identity(), "vdi-hub-7_") {
		t.Errorf("the lock's identity is %s", l.lock.Identity())
	}
}

func TestAHubWithoutElectionOrPodWritesAndLabelsNothing(t *testing.T) {
	l, err := newLeader(&rest.Config{Host: "hub.example.com"}, Options{TimeFactor: 1})
	if err != nil {
		t.Fatal(err)
	}
	if !l.leadership.Leading() || l.lock != nil || l.pods != nil {
		t.Errorf("%+v", l)
	}
	if err := l.addRole(nil, Options{}); err != nil {
		t.Error(err)
	}
}
