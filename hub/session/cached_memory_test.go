package session_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/session"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

const (
	// bombs is the number of sessions of one user, each as large as an API server accepts.
	bombs = 100
	// mostOfOne is the limit of the memory in bytes that one of them may take in the
	// hub's cache, including the cache's own structures.
	mostOfOne = 32 << 10
)

// A user who may create sessions cannot fill the hub's memory with their content:
// neither with env and files of sessions that are placed nowhere, nor with annotations.
func TestASessionCostsTheHubsCacheLittleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("the sessions are large")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	plane, err := harness.StartControlPlane(ctx, harness.ControlPlaneOptions{
		Name: "hub", APIOnly: true, CRDDirs: []string{"../../deploy/charts/vdi-hub/files/crds"},
		Namespaces: map[string]map[string]string{"desktops": nil, "vdi-system": nil},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = plane.Stop() }()
	scheme := kruntime.NewScheme()
	if err := api.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(plane.Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	for i := range bombs {
		if err := c.Create(ctx, bomb(i)); err != nil {
			t.Fatal(err)
		}
	}
	whole := cost(ctx, t, plane, cache.Options{Scheme: scheme, DefaultTransform: cache.TransformStripManagedFields()})
	kept := map[client.Object]cache.ByObject{}
	for kind, by := range session.Cached("vdi-system", nil) {
		if _, is := kind.(*api.VDISession); is {
			kept[kind] = by
		}
	}
	trimmed := cost(ctx, t, plane, cache.Options{Scheme: scheme, ByObject: kept})
	t.Logf("bytes of memory for each session: %d where all is kept, %d as the hub keeps it", whole, trimmed)
	if whole < 200<<10 {
		t.Errorf("%d bytes: these are no bombs", whole)
	}
	if trimmed > mostOfOne {
		t.Errorf("%d bytes, at most %d may be", trimmed, mostOfOne)
	}
}

// bomb returns a session of a template that does not exist, as large as it may be.
func bomb(i int) *api.VDISession {
	s := &api.VDISession{ObjectMeta: metav1.ObjectMeta{Namespace: "desktops", Name: fmt.Sprintf("bomb-%d", i)}}
	s.Annotations = map[string]string{"example.com/note": strings.Repeat("n", 255<<10)}
	s.Spec.User, s.Spec.Template = "mallory", "none"
	for f := range 4 {
		s.Spec.Files = append(s.Spec.Files, api.ConfigFile{Name: fmt.Sprintf("%04d", f), Content: strings.Repeat("f", 16<<10-4)})
	}
	return s
}

// cost returns how many bytes of memory a cache takes for each session.
func cost(ctx context.Context, t *testing.T, plane *harness.ControlPlane, options cache.Options) int {
	t.Helper()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	made, err := cache.New(plane.Config, options)
	if err != nil {
		t.Fatal(err)
	}
	before := heap()
	if _, err := made.GetInformer(ctx, &api.VDISession{}); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- made.Start(ctx) }()
	if !made.WaitForCacheSync(ctx) {
		t.Fatal("the cache has not synced")
	}
	sessions := &api.VDISessionList{}
	if err := made.List(ctx, sessions, client.UnsafeDisableDeepCopy); err != nil || len(sessions.Items) != bombs {
		t.Fatalf("%d sessions are cached: %v", len(sessions.Items), err)
	}
	sessions.Items = nil
	after := heap()
	runtime.KeepAlive(made)
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	return int((int64(after) - int64(before)) / bombs)
}

// heap returns how many bytes are in use.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
