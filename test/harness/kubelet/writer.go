package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"
)

// The retry intervals, the timeout, and the concurrency of writes.
const (
	firstRetry   = 20 * time.Millisecond
	lastRetry    = time.Second
	writeTimeout = 10 * time.Second
	writers      = 16
)

// A writer writes the latest status of each Pod and retries until it succeeds. Earlier
// statuses are skipped.
type writer struct {
	client kubernetes.Interface
	queue  workqueue.TypedRateLimitingInterface[types.UID]

	mu      sync.Mutex
	updates map[types.UID]*update
}

type update struct {
	uid             types.UID
	namespace, name string
	status          *corev1.PodStatus // nil if there is none to write
	remove          bool
	written         string // resourceVersion of the Pod with this status; empty until the write is acknowledged
	contradicted    string // resourceVersion in which another client changed the readiness; compared once written is known
}

func newWriter(client kubernetes.Interface) *writer {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[types.UID](firstRetry, lastRetry)
	return &writer{
		client: client, updates: map[types.UID]*update{},
		queue: workqueue.NewTypedRateLimitingQueue(limiter),
	}
}

// put queues a status, unless it equals the last one, and the final deletion of the Pod after
// it if remove.
func (w *writer) put(pod *corev1.Pod, status corev1.PodStatus, remove bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := w.updates[pod.UID]
	if last != nil && last.remove == remove && last.status != nil && equality.Semantic.DeepEqual(*last.status, status) {
		return
	}
	w.updates[pod.UID] = &update{uid: pod.UID, namespace: pod.Namespace, name: pod.Name, status: &status, remove: remove}
	w.queue.Add(pod.UID)
}

// remove queues the final deletion of the Pod.
func (w *writer) remove(pod *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if last := w.updates[pod.UID]; last != nil && last.remove {
		return
	}
	w.updates[pod.UID] = &update{uid: pod.UID, namespace: pod.Namespace, name: pod.Name, remove: true}
	w.queue.Add(pod.UID)
}

// repair writes the status again if another client has changed the Pod's readiness since: the
// node lifecycle controller does if nodes send no heartbeat in an outage of the API server.
func (w *writer) repair(pod *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := w.updates[pod.UID]
	if last == nil || last.status == nil || readiness(pod.Status) == readiness(*last.status) {
		return
	}
	last.contradicted = pod.ResourceVersion
	w.writeAgain(last)
}

// writeAgain queues a status that another client changed after it was written. It can decide
// only after the write: an event may arrive before the answer.
func (w *writer) writeAgain(last *update) {
	if last.written == "" || last.contradicted == "" {
		return
	}
	// A change before the writer's own write does not count.
	if order, err := resourceversion.CompareResourceVersion(last.contradicted, last.written); err != nil || order <= 0 {
		return
	}
	last.written, last.contradicted = "", ""
	w.queue.Add(last.uid)
}

func readiness(status corev1.PodStatus) corev1.ConditionStatus {
	for _, c := range status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status
		}
	}
	return corev1.ConditionUnknown
}

// wrote records the resourceVersion of a status that was written, if it is still the latest.
func (w *writer) wrote(s update, version string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if last := w.updates[s.uid]; last != nil && last.status == s.status {
		last.written = version
		w.writeAgain(last)
	}
}

func (w *writer) get(uid types.UID) (update, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, ok := w.updates[uid]
	if !ok {
		return update{}, false
	}
	return *s, true
}

// forget drops the last status of a Pod, so that it is written again if it is reported again.
func (w *writer) forget(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.updates, uid)
}

func (w *writer) run(ctx context.Context) {
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			for {
				uid, closed := w.queue.Get()
				if closed {
					return
				}
				if err := w.write(ctx, uid); err != nil {
					if apierrors.ReasonForError(err) != metav1.StatusReasonUnknown { // the server answered
						fmt.Fprintln(os.Stderr, "writing status:", err)
					}
					w.queue.AddRateLimited(uid)
				} else {
					w.queue.Forget(uid)
				}
				w.queue.Done(uid)
			}
		})
	}
	<-ctx.Done()
	w.queue.ShutDown()
	group.Wait()
}

// write returns an error if the write is to be retried; it is not if the Pod is gone, or
// another Pod has its name.
func (w *writer) write(ctx context.Context, uid types.UID) error {
	s, ok := w.get(uid)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	err := w.patch(ctx, s)
	if err == nil && s.remove {
		err = w.client.CoreV1().Pods(s.namespace).Delete(ctx, s.name, metav1.DeleteOptions{
			GracePeriodSeconds: new(int64), Preconditions: &metav1.Preconditions{UID: &s.uid},
		})
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

func (w *writer) patch(ctx context.Context, s update) error {
	if s.status == nil {
		return nil
	}
	patch, err := s.patch()
	if err != nil {
		return fmt.Errorf("writing status: %w", err)
	}
	pod, err := w.client.CoreV1().Pods(s.namespace).Patch(ctx, s.name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err == nil {
		w.wrote(s, pod.ResourceVersion)
	}
	return err
}

// patch returns a strategic merge patch of the status, which a Pod with another UID rejects.
// It removes what a merge would keep: reasons of conditions that have none any more, and
// previous addresses.
func (s update) patch() ([]byte, error) {
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(s.status)
	if err != nil {
		return nil, err
	}
	conditions, _, err := unstructured.NestedSlice(status, "conditions")
	if err != nil {
		return nil, err
	}
	for _, c := range conditions {
		if condition := c.(map[string]any); condition["reason"] == nil {
			condition["reason"] = nil
		}
	}
	status["conditions"] = conditions
	for _, addresses := range []string{"podIPs", "hostIPs"} {
		if list, ok := status[addresses].([]any); ok {
			status[addresses] = append([]any{map[string]any{"$patch": "replace"}}, list...)
		}
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"uid": s.uid}, "status": status})
}
