package karpenter

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// onDemand is the only capacity type that the cloud offers.
const onDemand = "on-demand"

// capacityTypeLabel is Karpenter's label for the capacity type.
const capacityTypeLabel = "karpenter.sh/capacity-type"

// instanceType is an instance type in the format of INSTANCE_TYPES_FILE_PATH.
type instanceType struct {
	Name             string              `json:"name"`
	Architecture     string              `json:"architecture"`
	OperatingSystems []string            `json:"operatingSystems"`
	Resources        corev1.ResourceList `json:"resources"`
	Offerings        []offering          `json:"offerings"`
}

type offering struct {
	Price        float64                          `json:"Price"`
	Available    bool                             `json:"Available"`
	Requirements []corev1.NodeSelectorRequirement `json:"Requirements"`
}

// instanceTypes returns the file of the instance types, with the region and the zones.
func (o Options) instanceTypes() ([]byte, error) {
	types := make([]instanceType, 0, len(o.InstanceTypes))
	for _, t := range o.InstanceTypes {
		types = append(types, instanceType{
			Name: t.Name, Architecture: "amd64", OperatingSystems: []string{"linux"},
			Resources: t.Resources, Offerings: o.offerings(t.Price),
		})
	}
	raw, err := json.MarshalIndent(types, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encoding instance types: %w", err)
	}
	return raw, nil
}

func (o Options) offerings(price float64) []offering {
	var offerings []offering
	for _, zone := range o.Zones {
		offerings = append(offerings, offering{Price: price, Available: true, Requirements: []corev1.NodeSelectorRequirement{
			isOneOf(capacityTypeLabel, onDemand), isOneOf(corev1.LabelTopologyZone, zone), isOneOf(corev1.LabelTopologyRegion, o.Region),
		}})
	}
	return offerings
}

func isOneOf(key string, values ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
}
