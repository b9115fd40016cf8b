package leadership

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/vdi-fleet/vdi-fleet/proto/election"
)

// +kubebuilder:rbac:groups="",namespace=vdi-system,resources=pods,verbs=get;list;patch

// LabelRole with value RoleLeader is on the Pod of the replica that leads.
const (
	LabelRole  = "vdi.kasm.io/hub-role"
	RoleLeader = "leader"
)

// appLabel distinguishes the hub's Pods from others of its namespace.
const appLabel = "app.kubernetes.io/name"

// Pods is a client of the hub's namespace that works without leadership, since a replica
// that does not lead removes its own label.
type Pods interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*corev1.Pod, error)
	List(ctx context.Context, opts metav1.ListOptions) (*corev1.PodList, error)
	Patch(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (*corev1.Pod, error)
}

// Role maintains the label of the leader's Pod. It runs on every replica: one that starts
// removes its own label, since its Pod may have led before; one that is elected removes the
// others', and sets its own once it listens.
type Role struct {
	Pods Pods
	// Pod is the name of this replica's own.
	Pod        string
	Leadership *election.Leadership
	// Elected is closed when this replica leads, Serving when it listens.
	Elected, Serving <-chan struct{}
	// Retry is the delay after a failure, Resync how often all labels are checked.
	Retry, Resync time.Duration
}

var _ manager.LeaderElectionRunnable = &Role{}

// NeedLeaderElection is false: replicas that do not lead remove their own labels.
func (r *Role) NeedLeaderElection() bool { return false }

// Start maintains the label until the context ends.
func (r *Role) Start(ctx context.Context) error {
	elected, serving := r.Elected, r.Serving
	for {
		again := r.Resync
		if err := r.align(ctx, elected == nil, serving == nil); err != nil {
			if ctx.Err() == nil {
				log.FromContext(ctx).Error(err, "Labeling the leader's Pod failed: retrying", "pod", r.Pod)
			}
			again = r.Retry
		}
		select {
		case <-ctx.Done():
			return nil
		case <-elected:
			elected = nil
		case <-serving:
			serving, elected = nil, nil
		case <-time.After(again):
		}
	}
}

// align corrects the labels.
func (r *Role) align(ctx context.Context, elected, serving bool) error {
	own, err := r.Pods.Get(ctx, r.Pod, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("getting the own Pod: %w", err)
	}
	marked := own.Labels[LabelRole] == RoleLeader
	if !elected {
		if marked {
			return r.set(ctx, r.Pod, nil)
		}
		return nil
	}
	if !r.Leadership.Leading() {
		return election.ErrNotLeading
	}
	err = r.unmarkOthers(ctx, own)
	if serving && !marked {
		err = errors.Join(err, r.set(ctx, r.Pod, ptr.To(RoleLeader)))
	}
	return err
}

func (r *Role) unmarkOthers(ctx context.Context, own *corev1.Pod) error {
	selector := labels.Set{LabelRole: RoleLeader}
	if app, ok := own.Labels[appLabel]; ok {
		selector[appLabel] = app
	}
	list, err := r.Pods.List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return fmt.Errorf("listing the leader's Pods: %w", err)
	}
	var errs []error
	for i := range list.Items {
		if name := list.Items[i].Name; name != r.Pod && r.Leadership.Leading() {
			if err := r.set(ctx, name, nil); !apierrors.IsNotFound(err) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// set changes the label of a Pod; nil removes it.
func (r *Role) set(ctx context.Context, pod string, value *string) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"labels": map[string]*string{LabelRole: value}},
	})
	if err != nil {
		return err
	}
	if _, err := r.Pods.Patch(ctx, pod, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("labeling Pod %s: %w", pod, err)
	}
	log.FromContext(ctx).Info("Labeled a Pod of the hub", "pod", pod, "leader", value != nil)
	return nil
}
