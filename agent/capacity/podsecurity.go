package capacity

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/metrics"
)

var metricNotEnforced = metrics.NewGauge("vdi_agent_namespaces_not_enforced",
	"Admitted namespaces that do not enforce Pod Security level restricted.")

// enforcing returns whether each admitted namespace enforces level restricted. Without it,
// the agent's token allows to create Pods that take over a node.
func enforcing(list []*corev1.Namespace) map[string]bool {
	out := map[string]bool{}
	for _, n := range list {
		if n.DeletionTimestamp == nil {
			out[n.Name] = n.Labels[v1alpha1.LabelPodSecurity] == v1alpha1.PodSecurityRestricted
		}
	}
	return out
}

// warnNotEnforced logs a change of the namespaces that do not enforce it.
func (w *Watcher) warnNotEnforced(m *Model) {
	metricNotEnforced.Set(float64(len(m.notEnforced)))
	if slices.Equal(w.notEnforced, m.notEnforced) {
		return
	}
	w.notEnforced = m.notEnforced
	if len(m.notEnforced) == 0 {
		log.Log.WithName("capacity").Info("All admitted namespaces enforce Pod Security")
		return
	}
	log.Log.WithName("capacity").Info("Admitted namespaces do not enforce Pod Security: run `kubectl vdi admit` for each of them",
		"namespaces", strings.Join(m.notEnforced, ","), "level", v1alpha1.PodSecurityRestricted)
}
