package harness_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

const auditLines = `{"verb":"create","user":{"username":"vdi-hub"},"objectRef":{"resource":"vdihomes","apiGroup":"vdi.kasm.io"},"requestReceivedTimestamp":"2026-01-01T00:00:00.000001Z","responseStatus":{"code":201}}
{"verb":"update","user":{"username":"vdi-hub"},"objectRef":{"resource":"vdisessions","subresource":"status","apiGroup":"vdi.kasm.io"},"requestReceivedTimestamp":"2026-01-01T00:00:01.000001Z","responseStatus":{"code":200}}
{"verb":"update","user":{"username":"vdi-hub"},"objectRef":{"resource":"vdisessions","subresource":"status","apiGroup":"vdi.kasm.io"},"requestReceivedTimestamp":"2026-01-01T00:00:02.000001Z","responseStatus":{"code":409}}
{"verb":"update","user":{"username":"vdi-hub"},"objectRef":{"resource":"leases","apiGroup":"coordination.k8s.io"},"requestReceivedTimestamp":"2026-01-01T00:00:02.000001Z","responseStatus":{"code":200}}
{"verb":"create","user":{"username":"vdi-hub"},"objectRef":{"resource":"events","apiGroup":"events.k8s.io"},"requestReceivedTimestamp":"2026-01-01T00:00:02.000001Z","responseStatus":{"code":201}}
{"verb":"create","user":{"username":"vdi-agent"},"objectRef":{"resource":"subjectaccessreviews","apiGroup":"authorization.k8s.io"},"requestReceivedTimestamp":"2026-01-01T00:00:02.000001Z","responseStatus":{"code":201}}
{"verb":"patch","userAgent":"agent/v1 (linux/amd64) eu-west","user":{"username":"vdi-agent"},"objectRef":{"resource":"pods"},"requestReceivedTimestamp":"2026-01-01T00:00:03.000001Z","responseStatus":{"code":200}}
{"verb":"patch","user":{"user`

func TestCountWrites(t *testing.T) {
	log := filepath.Join(t.TempDir(), "audit.log")
	must(t, os.WriteFile(log, []byte(auditLines), 0o600))
	home := harness.WriteCount{User: "vdi-hub", Verb: "create", Resource: "vdihomes", Count: 1}
	status := harness.WriteCount{User: "vdi-hub", Verb: "update", Resource: "vdisessions/status", Count: 2, Failed: 1}
	lease := harness.WriteCount{User: "vdi-hub", Verb: "update", Resource: "leases", Count: 1}
	event := harness.WriteCount{User: "vdi-hub", Verb: "create", Resource: "events", Count: 1}
	pod := harness.WriteCount{User: "vdi-agent", Verb: "patch", Resource: "pods", Count: 1}
	for name, test := range map[string]struct {
		options harness.CountOptions
		want    []harness.WriteCount
	}{
		"all but leases, events and reviews": {want: []harness.WriteCount{pod, home, status}},
		"leases and events when requested": {
			options: harness.CountOptions{Leases: true, Events: true, Users: []string{"vdi-hub"}},
			want:    []harness.WriteCount{event, lease, home, status},
		},
		"by user agent": {
			options: harness.CountOptions{ByAgent: true, Agent: "eu-west"},
			want: []harness.WriteCount{{
				User: "vdi-agent", Verb: "patch", Resource: "pods", Count: 1, Agent: "agent/v1 (linux/amd64) eu-west",
			}},
		},
		"from a time on": {
			options: harness.CountOptions{Since: time.Date(2026, 1, 1, 0, 0, 3, 0, time.UTC)},
			want:    []harness.WriteCount{pod},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := harness.CountWrites(log, test.options)
			must(t, err)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func testAudit(ctx context.Context, t *testing.T, cp *harness.ControlPlane) {
	config, err := cp.ConfigFor("vdi-hub", "system:masters")
	must(t, err)
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	mark, err := harness.AuditMark(cp.AuditLog())
	must(t, err)
	_, err = client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	must(t, err)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "counted", Namespace: "default"}}
	_, err = client.CoreV1().Secrets("default").Create(ctx, secret, metav1.CreateOptions{})
	must(t, err)
	got, err := harness.CountWrites(cp.AuditLog(), harness.CountOptions{Offset: mark, Users: []string{"vdi-hub"}})
	must(t, err)
	want := []harness.WriteCount{{User: "vdi-hub", Verb: "create", Resource: "secrets", Count: 1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// An API server that is killed while it writes leaves a part of a line, which the next one continues.
func TestAnAuditLogOfAnAPIServerThatWasKilled(t *testing.T) {
	const whole = `{"kind":"Event","verb":"create","user":{"username":"vdi-hub"},"objectRef":{"resource":"vdihomes"}}`
	log := filepath.Join(t.TempDir(), "audit.log")
	must(t, os.WriteFile(log, []byte(whole+"\n"+whole[:40]+whole+"\n"+whole+"\n"), 0o600))
	got, err := harness.CountWrites(log, harness.CountOptions{})
	must(t, err)
	if diff := cmp.Diff([]harness.WriteCount{{User: "vdi-hub", Verb: "create", Resource: "vdihomes", Count: 3}}, got); diff != "" {
		t.Error(diff)
	}
	must(t, os.WriteFile(log, []byte(whole[:40]+"\n"), 0o600))
	if _, err := harness.CountWrites(log, harness.CountOptions{}); err == nil {
		t.Error("a line that is no event is accepted")
	}
}
