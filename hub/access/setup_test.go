package access

import (
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/backoff"
	"github.com/vdi-fleet/vdi-fleet/hub/bulk"
)

// A new leader compares the Roles of all users. A user who starts a session meanwhile does not wait.
func TestRolesOfTheFirstListDelayNothing(t *testing.T) {
	role := func(name string) client.Object { return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	session := func(user string, phase v1alpha1.SessionPhase) client.Object {
		return &v1alpha1.VDISession{Spec: v1alpha1.SessionSpec{User: user}, Status: v1alpha1.SessionStatus{Phase: phase}}
	}
	starts := Name("starts")
	for _, c := range []struct {
		name   string
		object client.Object
		of     func(client.Object) reconcile.Request
		listed bool
		want   []string
	}{
		{"a Role that is listed", role("a"), itself, true, nil},
		{"a new Role", role("a"), itself, false, []string{"a"}},
		{"a session that runs and is listed", session("runs", v1alpha1.PhaseRunning), roleOf, true, nil},
		{"a session that starts and is listed", session("starts", v1alpha1.PhaseCreating), roleOf, true, []string{starts}},
		{"a new session", session("starts", v1alpha1.PhaseRunning), roleOf, false, []string{starts}},
	} {
		t.Run(c.name, func(t *testing.T) {
			queue := workqueue.NewTypedRateLimitingQueue(backoff.Limiter[reconcile.Request]())
			t.Cleanup(queue.ShutDown)
			listed := bulk.NewFeed[reconcile.Request]()
			handler := enqueue(c.of, listed)
			handler.Create(t.Context(), event.CreateEvent{Object: c.object, IsInInitialList: c.listed}, queue)
			if got := namesIn(queue); !slices.Equal(got, c.want) {
				t.Errorf("at once %q are reconciled, want %q", got, c.want)
			}
			if waits := listed.Len() > 0; waits != (len(c.want) == 0) {
				t.Errorf("it waits: %v", waits)
			}
			handler.Update(t.Context(), event.UpdateEvent{ObjectOld: c.object, ObjectNew: c.object}, queue)
			if got := namesIn(queue); len(got) != 1 {
				t.Errorf("after a change %q are reconciled at once, want it", got)
			}
		})
	}
}

// namesIn takes all requests from a queue.
func namesIn(queue workqueue.TypedRateLimitingInterface[reconcile.Request]) (names []string) {
	for queue.Len() > 0 {
		r, _ := queue.Get()
		queue.Done(r)
		names = append(names, r.Name)
	}
	return names
}
