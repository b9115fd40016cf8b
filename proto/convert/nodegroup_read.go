package convert

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// maxTaints limits the taints of a node group, maxNodes its nodes, as the API does.
const (
	maxTaints = 16
	maxNodes  = 10_000
)

// CheckedNodeGroups returns the node groups of a TemplateSet without those that are malformed, or beyond
// v1alpha1.MaxNodeGroups. The error names each of these with its field.
func CheckedNodeGroups(all []*fleetv1.NodeGroup) (sound []*fleetv1.NodeGroup, err error) {
	var errs []error
	if len(all) > v1alpha1.MaxNodeGroups {
		errs = append(errs, tooMany("node_groups", len(all), v1alpha1.MaxNodeGroups))
		all = all[:v1alpha1.MaxNodeGroups]
	}
	for _, w := range all {
		err := checkNodeGroup(w)
		if err == nil && slices.ContainsFunc(sound, func(o *fleetv1.NodeGroup) bool { return o.GetName() == w.GetName() }) {
			err = errors.New("name: it is that of another node group")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("node group %q: %w", Sentence(w.GetName(), MaxToken), err))
			continue
		}
		sound = append(sound, w)
	}
	return sound, errors.Join(errs...)
}

// checkNodeGroup refuses a node group with a field beyond its limit, or that can't be read.
func checkNodeGroup(w *fleetv1.NodeGroup) error {
	c := &Checks{}
	c.Name("name", w.GetName())
	c.optionalName("karpenter_node_pool", w.GetKarpenterNodePool())
	c.Token("cluster_autoscaler_group", w.GetClusterAutoscalerGroup(), MaxName)
	if w.GetKarpenterNodePool() != "" && w.GetClusterAutoscalerGroup() != "" {
		c.refuse(errors.New("karpenter_node_pool: there is a cluster_autoscaler_group too"))
	}
	c.NotNegative("max_nodes", int64(w.GetMaxNodes()))
	c.AtMost("max_nodes", int64(w.GetMaxNodes()), maxNodes)
	c.pairs("labels", w.GetLabels())
	c.Count("taints", len(w.GetTaints()), maxTaints)
	for _, t := range w.GetTaints() {
		c.text("taints.key", t.GetKey(), maxText)
		c.text("taints.value", t.GetValue(), maxText)
		c.text("taints.effect", t.GetEffect(), MaxToken)
	}
	c.pairs("allocatable", w.GetAllocatable())
	if c.Err == nil {
		c.refuse(checkShape(w.GetAllocatable()))
	}
	_, err := durationFromWire("provisioning_time", w.GetProvisioningTime())
	c.refuse(err)
	return c.Err
}

func checkShape(allocatable map[string]string) error {
	if _, err := ResourcesFromWire(allocatable); err != nil {
		return fmt.Errorf("allocatable%w", err)
	}
	if _, ok := allocatable[string(corev1.ResourcePods)]; len(allocatable) > 0 && !ok {
		return errors.New("allocatable: it has no pods")
	}
	return nil
}
