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

// The interval and the timeout of the attempts to read the hub cluster's fingerprint.
const (
	fingerprintEvery = time.Second
	fingerprintFor   = 30 * time.Second
)

// setHubCluster sets the fingerprint of the cluster that this hub runs in. If it is a
// member too, its heartbeats don't show whether the hub is cut off. Agents use the same
// fingerprint for their clusters.
func setHubCluster(ctx context.Context, live client.Reader, f *member.Fleet) error {
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
