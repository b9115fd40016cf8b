package capacity

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// RequirementsOf reads the hub's templates. One that can't be read is reported as
// unavailable.
func RequirementsOf(set *fleetv1.TemplateSet) []Requirements {
	out := make([]Requirements, 0, len(set.GetTemplates()))
	for _, t := range set.GetTemplates() {
		r := Requirements{
			Name: t.GetName(), Revision: t.GetRevision(),
			PodSpec: PodSpec{
				NodeSelector: t.GetNodeSelector(), RuntimeClass: t.GetRuntimeClassName(),
				Home: t.GetHome(), StorageClass: t.GetStorageClassName(),
			},
			IngressClass: t.GetIngressClassName(), Image: t.GetImage(),
			PriorityClass: t.GetPriorityClassName(),
			NetworkMode:   v1alpha1.NetworkPolicyMode(t.GetNetworkPolicy().GetMode()),
			EgressCIDRs:   t.GetNetworkPolicy().GetEgressCidrs(),
		}
		for _, o := range t.GetTolerations() {
			r.Tolerations = append(r.Tolerations, corev1.Toleration{
				Key: o.GetKey(), Operator: corev1.TolerationOperator(o.GetOperator()), Value: o.GetValue(),
				Effect: corev1.TaintEffect(o.GetEffect()), TolerationSeconds: o.TolerationSeconds,
			})
		}
		if err := r.readResources(t.GetResources()); err != nil {
			r.Problem = err.Error()
		}
		out = append(out, r)
	}
	return out
}

func (r *Requirements) readResources(quantities map[string]string) error {
	list := corev1.ResourceList{}
	for _, name := range slices.Sorted(maps.Keys(quantities)) {
		q, err := resource.ParseQuantity(quantities[name])
		if err != nil {
			return fmt.Errorf("the template requests %s %q, which is not a quantity", name, quantities[name])
		}
		list[corev1.ResourceName(name)] = q
	}
	r.Resources = ResourcesOf(list)
	return nil
}

func (r Resources) wire() map[string]int64 {
	out := make(map[string]int64, len(r))
	for name, amount := range r {
		out[string(name)] = amount
	}
	return out
}
