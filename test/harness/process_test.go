package harness_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

func testUsers(ctx context.Context, t *testing.T, cp *harness.ControlPlane) {
	config, err := cp.ConfigFor("alice")
	if err != nil {
		t.Fatal(err)
	}
	alice, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	_, err = alice.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `"alice"`) {
		t.Errorf("alice, without rights, gets: %v", err)
	}
	config.CertData, config.KeyData = nil, nil
	anonymous, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = anonymous.CoreV1().Namespaces().List(ctx, metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("an anonymous user gets: %v", err)
	}
	if err := anonymous.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
		t.Errorf("an anonymous user may not read the health: %v", err)
	}
	if out, err := cp.Kubectl(ctx, "get", "namespace", "desktops", "-o", "jsonpath={.metadata.labels.team}"); err != nil || out != "a" {
		t.Errorf("kubectl prints %q, %v", out, err)
	}
}

func testProcesses(ctx context.Context, t *testing.T, cp *harness.ControlPlane) {
	before := cp.APIServer.PID()
	for _, process := range []*harness.Process{cp.APIServer, cp.Etcd} {
		if err := process.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	if cp.APIServer.Running() {
		t.Error("the API server runs although killed")
	}
	for _, process := range []*harness.Process{cp.Etcd, cp.APIServer} {
		if err := process.Start(); err != nil {
			t.Fatal(err)
		}
	}
	if err := cp.WaitAPI(ctx); err != nil {
		t.Fatal(err)
	}
	if cp.APIServer.PID() == before {
		t.Error("the API server has its old pid")
	}
	get := func(ctx context.Context) error {
		_, err := cp.Client.CoreV1().Namespaces().Get(ctx, "desktops", metav1.GetOptions{})
		return err
	}
	eventually(ctx, t, get)

	if err := cp.APIServer.Pause(); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if err := get(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a paused API server answers: %v", err)
	}
	if err := cp.APIServer.Resume(); err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, get)

	if err := cp.Scheduler.Restart(); err != nil {
		t.Fatal(err)
	}
	must(t, cp.RestartKWOK(ctx))
	createPod(ctx, t, cp, pod("after-restart", "registry.example/desktop:1", nil))
	eventually(ctx, t, podIs(cp, "after-restart", podReady))
}

func TestProcessThatExitsAtStartIsReportedAtOnce(t *testing.T) {
	ctx := testContext(t)
	_, err := harness.StartControlPlane(ctx, harness.ControlPlaneOptions{
		APIOnly:       true,
		APIServerArgs: []string{"--no-such-flag"},
	})
	if err == nil || !strings.Contains(err.Error(), "unknown flag: --no-such-flag") {
		t.Fatal(fmt.Errorf("the error does not hold the log's end: %w", err))
	}
}
