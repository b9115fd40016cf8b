package karpenter

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/vdi-fleet/vdi-fleet/test/harness/apply"
)

const (
	nodeClassGroup   = "karpenter.kwok.sh"
	nodeClassVersion = nodeClassGroup + "/v1alpha1"
	nodeClassKind    = "KWOKNodeClass"
	nodePoolVersion  = "karpenter.sh/v1"
	nodePoolKind     = "NodePool"
	nodePoolLabel    = "karpenter.sh/nodepool"
	never            = "Never"
)

// nodePoolSpec is the spec of a NodePool, as far as the harness sets it.
type nodePoolSpec struct {
	Template struct {
		Metadata struct {
			Labels map[string]string `json:"labels,omitempty"`
		} `json:"metadata"`
		Spec templateSpec `json:"spec"`
	} `json:"template"`
	Disruption disruption          `json:"disruption"`
	Limits     corev1.ResourceList `json:"limits,omitempty"`
}

type templateSpec struct {
	NodeClassRef  nodeClassRef                     `json:"nodeClassRef"`
	Requirements  []corev1.NodeSelectorRequirement `json:"requirements"`
	Taints        []corev1.Taint                   `json:"taints,omitempty"`
	StartupTaints []corev1.Taint                   `json:"startupTaints,omitempty"`
	ExpireAfter   string                           `json:"expireAfter"`
}

type nodeClassRef struct {
	Group string `json:"group"`
	Kind  string `json:"kind"`
	Name  string `json:"name"`
}

type disruption struct {
	ConsolidationPolicy string `json:"consolidationPolicy"`
	ConsolidateAfter    string `json:"consolidateAfter"`
}

// Objects returns the KWOKNodeClass and the NodePool.
func (p NodePool) Objects() ([]*unstructured.Unstructured, error) {
	var spec nodePoolSpec
	spec.Template.Metadata.Labels = p.Labels
	spec.Template.Spec = templateSpec{
		NodeClassRef: nodeClassRef{Group: nodeClassGroup, Kind: nodeClassKind, Name: p.Name},
		Requirements: p.requirements(),
		Taints:       p.Taints, StartupTaints: p.StartupTaints, ExpireAfter: never,
	}
	spec.Disruption = disruption{ConsolidationPolicy: "WhenEmpty", ConsolidateAfter: orNever(p.ConsolidateAfter)}
	spec.Limits = p.Limits
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&spec)
	if err != nil {
		return nil, fmt.Errorf("encoding NodePool %s: %w", p.Name, err)
	}
	class := apply.Object(nodeClassVersion, nodeClassKind, "", p.Name, nil)
	class.Object["spec"] = map[string]any{"nodeRegistrationDelay": seconds(p.RegistrationDelay)}
	pool := apply.Object(nodePoolVersion, nodePoolKind, "", p.Name, nil)
	pool.Object["spec"] = raw
	return []*unstructured.Unstructured{class, pool}, nil
}

func (p NodePool) requirements() []corev1.NodeSelectorRequirement {
	requirements := []corev1.NodeSelectorRequirement{
		isOneOf(capacityTypeLabel, onDemand), isOneOf(corev1.LabelOSStable, "linux"), isOneOf(corev1.LabelArchStable, "amd64"),
	}
	if len(p.InstanceTypes) > 0 {
		requirements = append(requirements, isOneOf(corev1.LabelInstanceTypeStable, p.InstanceTypes...))
	}
	return requirements
}

// orNever returns a duration in Karpenter's format, with 0 as never.
func orNever(d time.Duration) string {
	if d == 0 {
		return never
	}
	return seconds(d)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%ds", d/time.Second) }
