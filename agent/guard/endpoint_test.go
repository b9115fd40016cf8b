package guard

import (
	"context"
	"net/http"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// A lease is valid once the cache shows every mark, which a request that has read the assignment
// before has not seen.
func TestAnAnswerFromBeforeTheLapseWasMarkedIsARefusal(t *testing.T) {
	unmarked := assignment()
	a := &agent{t: t}
	a.lease(0)
	reads := interceptor.Funcs{Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
		unmarked.DeepCopyInto(o.(*api.SessionAssignment))
		a.lease(time.Hour)
		return nil
	}}
	e := NewEndpoint(EndpointOptions{
		Client: fake.NewClientBuilder().WithInterceptorFuncs(reads).Build(), TimeFactor: factor, LeaseStatus: a.leaseStatus,
	})
	if left, code, _ := e.answer(t.Context(), permissionRequest{namespace: unmarked.Namespace, name: unmarked.Name, uid: string(unmarked.UID)}); code != http.StatusForbidden {
		t.Errorf("a desktop that the hub may have rescheduled may go on for %s", left)
	}
}
