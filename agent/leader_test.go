package agent

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/vdi-fleet/vdi-fleet/proto/election"
)

func TestACrashedLeaderIsReplacedWithinTheTimeThatTheLeaseAllows(t *testing.T) {
	for _, factor := range []float64{0.01, 0.05, 0.15, 0.2, 0.3, 1, 1.5, 10} {
		o := Options{TimeFactor: factor}
		lease, retry := o.leaseDuration(), o.retryPeriod()
		if lease%time.Second != 0 || lease < minLeaseDuration || float64(lease) < factor*float64(leaseDuration) {
			t.Errorf("factor %v: a Lease can't hold %s", factor, lease)
		}
		if retry <= 0 || 4*retry > lease {
			t.Errorf("factor %v: renewed every %s of %s: one request that fails costs the lead", factor, retry, lease)
		}
	}
	o := Options{TimeFactor: 1}
	// The others check every period, with a jitter of up to a fifth more than as much again.
	takeover := o.leaseDuration() + time.Duration((1+leaderelection.JitterFactor)*float64(o.retryPeriod()))
	if takeover > 20*time.Second {
		t.Errorf("a dead leader is replaced after %s; S of docs/design.md, section 7 has 20 s for it", takeover)
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
	r.saw = append(r.saw, request.Method+" "+request.URL.Path+" "+request.UserAgent())
	http.Error(w, "no", http.StatusNotFound)
}

func TestAReplicaThatIsNotCertainToLeadWritesOnlyItsLock(t *testing.T) {
	t.Setenv("POD_NAME", "vdi-agent-7")
	api := &requests{}
	server := httptest.NewServer(api)
	defer server.Close()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	cfg := &rest.Config{Host: server.URL}
	_, lock, err := newLeadership(cfg, Options{Namespace: "vdi-system", LeaderElect: true, TimeFactor: 1}, scheme, func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().ConfigMaps("vdi-system").Create(t.Context(), &corev1.ConfigMap{}, metav1.CreateOptions{}); !errors.Is(err, election.ErrNotLeading) {
		t.Errorf("it wrote: %v", err)
	}
	if _, err := client.CoreV1().ConfigMaps("vdi-system").Get(t.Context(), "a", metav1.GetOptions{}); err == nil || errors.Is(err, election.ErrNotLeading) {
		t.Errorf("it may read: %v", err)
	}
	if err := lock.Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: lock.Identity()}); err == nil || errors.Is(err, election.ErrNotLeading) {
		t.Errorf("it may take its lock: %v", err)
	}
	saw := strings.Join(api.saw, "\n")
	for _, want := range []string{
		"GET /api/v1/namespaces/vdi-system/configmaps/a " + rest.DefaultKubernetesUserAgent() + " vdi-agent-7",
		"POST /apis/coordination.k8s.io/v1/namespaces/vdi-system/leases " + rest.DefaultKubernetesUserAgent() + " vdi-agent-7/leader-election",
	} {
		if !strings.Contains(saw, want) {
			t.Errorf("%q was not requested:\n%s", want, saw)
		}
	}
	if len(api.saw) != 2 {
		t.Errorf("%d requests were sent:\n%s", len(api.saw), saw)
	}
	if !strings.HasPrefix(lock.Identity(), "vdi-agent-7_") {
		t.Errorf("the lock is held by %s", lock.Identity())
	}
}

func TestAnAgentWithoutReplicasLeadsWithoutALock(t *testing.T) {
	leadership, lock, err := newLeadership(&rest.Config{}, Options{TimeFactor: 1}, runtime.NewScheme(), func(error) {})
	if err != nil || lock != nil || !leadership.Leading() {
		t.Errorf("%+v, %v, %v", leadership, lock, err)
	}
}
