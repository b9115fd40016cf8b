package session

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	"github.com/vdi-fleet/vdi-fleet/agent/render"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

const (
	// podPoll is how often a Pod is asked for that the cache does not show.
	podPoll = time.Second
	// homePatience is how long a deleted home is waited for: what keeps it
	// after that is the storage's affair, and no desktop can run.
	homePatience = 10 * time.Second
)

// finalize takes the children away in order, and then lets the assignment go:
// nobody comes in any more, the desktop saves its work and stops, and only
// then is its home removed.
func (r *Reconciler) finalize(ctx context.Context, p *pass) error {
	if !controllerutil.ContainsFinalizer(p.assignment, api.AssignmentFinalizer) {
		return nil
	}
	for _, s := range []struct {
		name string
		run  func(context.Context, *pass) (done bool, err error)
	}{
		{"network", r.removeNetwork},
		{"Pods", r.removePods},
		{"home", r.removeHome},
	} {
		done, err := s.run(ctx, p)
		if err != nil {
			return fmt.Errorf("removing the %s: %w", s.name, err)
		}
		if !done {
			return r.report(ctx, p, observe.Stopping(p.assignment, p.found.Pod, p.now))
		}
	}
	return r.release(ctx, p)
}

// removeNetwork does not wait: what keeps an Ingress, such as a load
// balancer's finalizer, keeps no desktop running.
func (r *Reconciler) removeNetwork(ctx context.Context, p *pass) (bool, error) {
	ingress, err := find(ctx, r, p, ingresses, p.assignment.Name)
	if err != nil {
		return false, err
	}
	if ingress != nil && ingresses.stranger(p.assignment, ingress) == "" {
		if err := r.remove(ctx, p, kindIngress, ingress); err != nil {
			return false, err
		}
	}
	service, err := find(ctx, r, p, services, p.assignment.Name)
	if err != nil {
		return false, err
	}
	if service != nil && services.stranger(p.assignment, service) == "" {
		return true, r.remove(ctx, p, kindService, service)
	}
	return true, nil
}

// removePods is done when the API server has no Pod of the assignment any
// more, by its name or by its labels. The cache is asked first, since it is
// near; it is not believed when it says that there is none.
func (r *Reconciler) removePods(ctx context.Context, p *pass) (bool, error) {
	left, err := r.podsLeft(ctx, p, r.Client)
	if err != nil {
		return false, err
	}
	if len(left) == 0 {
		if left, err = r.podsLeft(ctx, p, r.APIReader); err != nil || len(left) == 0 {
			return err == nil, err
		}
		p.again(podPoll)
	}
	p.found.Pod = left[0]
	for _, pod := range left {
		if err := r.remove(ctx, p, kindPod, pod); err != nil {
			return false, err
		}
	}
	return false, nil
}

func (r *Reconciler) podsLeft(ctx context.Context, p *pass, from client.Reader) ([]*corev1.Pod, error) {
	var left []*corev1.Pod
	keep := func(pod *corev1.Pod) {
		if pods.stranger(p.assignment, pod) == "" {
			left = append(left, pod)
		}
	}
	var list corev1.PodList
	marks := client.MatchingLabels{api.LabelAssignment: p.assignment.Name}
	if err := from.List(ctx, &list, client.InNamespace(p.assignment.Namespace), marks); err != nil {
		return nil, fmt.Errorf("listing Pods: %w", err)
	}
	named := false
	for i := range list.Items {
		named = named || list.Items[i].Name == p.assignment.Name
		keep(&list.Items[i])
	}
	if named {
		return left, nil
	}
	// Somebody may have taken its labels away.
	var pod corev1.Pod
	err := from.Get(ctx, client.ObjectKeyFromObject(p.assignment), &pod)
	if err == nil {
		keep(&pod)
	}
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the Pod: %w", err)
	}
	return left, nil
}

// removeHome deletes the claim that is this session's own, read from the API
// server: it has no owner, so nobody else would. It waits a while for it to be
// gone.
func (r *Reconciler) removeHome(ctx context.Context, p *pass) (bool, error) {
	var list corev1.PersistentVolumeClaimList
	marks := client.MatchingLabels(render.Selector(p.assignment))
	marks[render.LabelHomeMode] = string(api.HomePerSession)
	if err := r.APIReader.List(ctx, &list, client.InNamespace(p.assignment.Namespace), marks); err != nil {
		return false, fmt.Errorf("listing claims: %w", err)
	}
	if len(list.Items) == 0 {
		return true, nil
	}
	for i := range list.Items {
		if err := r.remove(ctx, p, kindHome, &list.Items[i]); err != nil {
			return false, err
		}
	}
	if p.memory.homeLeaving.IsZero() {
		p.memory.homeLeaving = p.now
	}
	p.again(podPoll)
	return p.now.Sub(p.memory.homeLeaving) >= homePatience, nil
}

// release lets the assignment go, which tells the hub that it is stopped.
func (r *Reconciler) release(ctx context.Context, p *pass) error {
	before := p.assignment.DeepCopy()
	controllerutil.RemoveFinalizer(p.assignment, api.AssignmentFinalizer)
	writes.WithLabelValues(kindAssignment, "release").Inc()
	err := r.Client.Patch(ctx, p.assignment, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsConflict(err):
		p.again(soon)
		return nil
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("removing the finalizer: %w", err)
	}
	p.after = 0
	log.FromContext(ctx).Info("Stopped", "session", p.assignment.Spec.Session.Name, "epoch", p.assignment.Spec.Epoch)
	r.event(p.assignment, corev1.EventTypeNormal, api.EventStopped, "The desktop is stopped, and nothing of it is left but a home that outlives it.")
	return nil
}
