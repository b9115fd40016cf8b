package hub

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/hub/member"
)

// +kubebuilder:rbac:groups="",resources=namespaces,resourceNames=kube-system,verbs=get

// Its own cluster's fingerprint is asked for so often and for so long.
const (
	fingerprintEvery = time.Second
	fingerprintFor   = 30 * time.Second
)

// knowOwnCluster tells the fleet which member is the cluster that this hub runs
// in: it is a member like any other, but says nothing of whether the hub is cut
// off. Agents take the same for their clusters' fingerprint.
func knowOwnCluster(ctx context.Context, live client.Reader, f *member.Fleet) error {
	ns := &corev1.Namespace{}
	var last error
	err := wait.PollUntilContextTimeout(ctx, fingerprintEvery, fingerprintFor, true, func(ctx context.Context) (bool, error) {
		last = live.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, ns)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("reading this cluster's fingerprint: %w", errors.Join(err, last))
	}
	f.HubCluster(string(ns.UID))
	return nil
}
