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

// BenchmarkCachedSession reports the memory of a Running session in the hub's cache: decoded, and
// as the cache keeps it. The indexes of the cache come in addition.
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
				before := liveHeap()
				for i := range all {
					all[i] = decoded(b, i)
					if _, err := transform(all[i]); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(liveHeap()-before)/sessions, "live-bytes/session")
				runtime.KeepAlive(all)
			}
		})
	}
}

func liveHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// decoded returns a Running session as the watch of the API server delivers it.
func decoded(b *testing.B, i int) *api.VDISession {
	now := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	s := &api.VDISession{ObjectMeta: metav1.ObjectMeta{
		Namespace: "desktops", Name: fmt.Sprintf("session-%06d", i), UID: types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i)),
		ResourceVersion: fmt.Sprint(100000 + i), Generation: 1, CreationTimestamp: now, Finalizers: []string{api.Finalizer},
	}}
	s.Spec.User, s.Spec.Template = fmt.Sprintf("user-%d@example.com", i/3), "browser"
	s.Status = api.SessionStatus{
		Phase: api.PhaseRunning, Message: fmt.Sprintf("running in member-%03d", i%100), URL: fmt.Sprintf("https://session-%06d-abcdefghij.member-%03d.example.com/", i, i%100),
		StartTime: &now, RunningSince: &now, ExpirationTime: &now, Epoch: 1, ObservedGeneration: 1, TemplateRevision: "0123456789abcdef",
		Placement: &api.Placement{ClusterName: fmt.Sprintf("member-%03d", i%100), ClusterUID: types.UID(fmt.Sprintf("00000000-0000-4000-9000-%012d", i%100)), Epoch: 1, Run: 1, PlacementTime: now},
	}
	for _, kind := range []string{api.ConditionAccepted, api.ConditionScheduled, api.ConditionAssigned, api.ConditionReady, api.ConditionPodReady} {
		s.Status.Conditions = append(s.Status.Conditions, metav1.Condition{
			Type: kind, Status: metav1.ConditionTrue, Reason: "AsExpected", ObservedGeneration: 1, LastTransitionTime: now,
			Message: fmt.Sprintf("The condition %s of session-%06d is as it must be.", kind, i),
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
