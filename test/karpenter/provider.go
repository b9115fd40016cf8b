package main

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
)

// provider is the KWOK provider with two differences: instances have the resources of their
// instance type, and launches fail as faults.InsufficientCapacity requires.
//
// The KWOK provider gives an instance the requests of its first Pods as its capacity, so the
// resource limits of NodePools would count wrong.
type provider struct {
	cloudprovider.CloudProvider
	types  map[string]*cloudprovider.InstanceType
	faults faultReader
}

func newProvider(kwok cloudprovider.CloudProvider, types []*cloudprovider.InstanceType, faults faultReader) *provider {
	byName := map[string]*cloudprovider.InstanceType{}
	for _, instanceType := range types {
		byName[instanceType.Name] = instanceType
	}
	return &provider{CloudProvider: kwok, types: byName, faults: faults}
}

// Create implements cloudprovider.CloudProvider.
func (p *provider) Create(ctx context.Context, claim *v1.NodeClaim) (*v1.NodeClaim, error) {
	faults, err := p.faults.of(ctx, claim.Labels[v1.NodePoolLabelKey])
	if err != nil {
		return nil, err
	}
	if faults.InsufficientCapacity != "" {
		return nil, cloudprovider.NewInsufficientCapacityError(errors.New(faults.InsufficientCapacity))
	}
	launched, err := p.CloudProvider.Create(ctx, claim)
	if err != nil {
		return nil, err
	}
	instanceType := p.types[launched.Labels[corev1.LabelInstanceTypeStable]]
	if instanceType == nil {
		return nil, fmt.Errorf("instance type %q is unknown", launched.Labels[corev1.LabelInstanceTypeStable])
	}
	launched.Status.Capacity = instanceType.Capacity.DeepCopy()
	launched.Status.Allocatable = instanceType.Allocatable().DeepCopy()
	return launched, nil
}

// withoutNodes is a client that creates no nodes, without an error. The KWOK provider gets it:
// a node that it has not created yet would be lost when the process ends, and would neither have
// the resources of its instance type nor a controllable start. See instances.
type withoutNodes struct {
	client.Client
}

// Create implements client.Client.
func (c withoutNodes) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	if _, ok := object.(*corev1.Node); ok {
		return nil
	}
	return c.Client.Create(ctx, object, options...)
}
