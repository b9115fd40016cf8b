package session_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/session"
)

// BenchmarkCachedSession reports the memory of a Running session in the hub's cache, and its objects, which
// take time in each garbage collection: decoded, and as the cache keeps it. The indexes of the cache come in addition.
func BenchmarkCachedSession(b *testing.B) {
	const sessions = 5000
	var keep toolscache.TransformFunc
	for kind, by := range session.Cached("vdi-system", nil) {
		if _, is := kind.(*api.VDISession); is {
			keep = by.Transform
		}
	}
	for name, transform := range map[string]toolscache.TransformFunc{
		"decoded": func(o any) (any, error) { return o, nil }, "kept": keep,
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				all := make([]*api.VDISession, sessions)
				bytes, objects := liveHeap()
				for i := range all {
					all[i] = decoded(b, i)
					if _, err := transform(all[i]); err != nil {
						b.Fatal(err)
					}
				}
				moreBytes, moreObjects := liveHeap()
				b.ReportMetric(float64(moreBytes-bytes)/sessions, "live-bytes/session")
				b.ReportMetric(float64(moreObjects-objects)/sessions, "live-objects/session")
				runtime.KeepAlive(all)
			}
		})
	}
}

func liveHeap() (bytes, objects uint64) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc, m.HeapObjects
}

// decoded returns a Running session as the watch of the API server delivers it.
func decoded(b *testing.B, i int) *api.VDISession {
	now := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	s := &api.VDISession{ObjectMeta: metav1.ObjectMeta{
		Namespace: "desktops", Name: fmt.Sprintf("session-%06d", i), UID: types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i)),
		ResourceVersion: fmt.Sprint(100000 + i), Generation: 1, CreationTimestamp: now, Finalizers: []string{api.Finalizer},
	}}
	member := fmt.Sprintf("member-%03d", i%100)
	s.Spec.User, s.Spec.Template, s.Spec.OperatingMode = fmt.Sprintf("user-%d@example.com", i/3), "browser", api.ModeRunning
	s.Status = api.SessionStatus{
		Phase: api.PhaseRunning, URL: fmt.Sprintf("https://session-%06d-abcdefghij.%s.example.com/", i, member), AccessSecretName: s.Name + "-abcdefghij",
		StartTime: &now, RunningSince: &now, ExpirationTime: &now, Epoch: 1, ObservedGeneration: 1, TemplateRevision: "0123456789abcdef",
		Placement: &api.Placement{
			ClusterName: member, ClusterUID: types.UID(fmt.Sprintf("00000000-0000-4000-9000-%012d", i%100)), Epoch: 1, Run: 1,
			Region: "eu", FailoverMode: api.FailoverRestart, PlacementTime: now,
		},
	}
	for kind, message := range map[string]string{
		api.ConditionAccepted: "the session may run", api.ConditionScheduled: fmt.Sprintf("%s: %d slots left", member, i),
		api.ConditionAssigned: member + " has it", api.ConditionReady: "ready", api.ConditionPodReady: "the Pod is ready",
	} {
		s.Status.Conditions = append(s.Status.Conditions, metav1.Condition{
			Type: kind, Status: metav1.ConditionTrue, Reason: "AsExpected", Message: message, ObservedGeneration: 1, LastTransitionTime: now,
		})
	}
	text, err := json.Marshal(s)
	if err != nil {
		b.Fatal(err)
	}
	out := &api.VDISession{}
	if err := json.Unmarshal(text, out); err != nil {
		b.Fatal(err)
	}
	return out
}
