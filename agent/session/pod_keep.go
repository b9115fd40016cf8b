package session

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/controller-runtime/pkg/log"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// orderedSince is the first minor version of Kubernetes 1 whose namespace controller
// waits until all Pods of a namespace are gone before it deletes anything else there.
const orderedSince = 33

// orderedDeletion remembers whether the member's API server is no older than that.
type orderedDeletion struct {
	mu         sync.Mutex
	known, yes bool
}

// mayKeep leaves a Pod its finalizer only where the agent keeps the right to remove it
// as long as the Pod is there: in an older Kubernetes a namespace that is deleted may
// lose the agent's RoleBinding before its Pods.
func (r *Reconciler) mayKeep(ctx context.Context, pod *corev1.Pod) error {
	if r.ServerVersion == nil || !keptUntilStopped(pod) {
		return nil
	}
	r.ordered.mu.Lock()
	defer r.ordered.mu.Unlock()
	if !r.ordered.known {
		info, err := r.ServerVersion()
		if err != nil {
			return fmt.Errorf("asking the API server for its version: %w", err)
		}
		r.ordered.known, r.ordered.yes = true, deletesInOrder(info)
		if !r.ordered.yes {
			log.FromContext(ctx).Info("A Pod that is deleted by force counts as stopped: Kubernetes is too old to delete Pods first",
				"version", info.GitVersion, "atLeast", orderedSince)
		}
	}
	if !r.ordered.yes {
		pod.Finalizers = slices.DeleteFunc(pod.Finalizers, func(f string) bool { return f == api.PodFinalizer })
	}
	return nil
}

// deletesInOrder reports whether an API server's namespaces lose their Pods first. A
// version that can't be read counts as new.
func deletesInOrder(info *version.Info) bool {
	minor, err := strconv.Atoi(strings.TrimRight(info.Minor, "+"))
	return err != nil || info.Major != "1" || minor >= orderedSince
}
