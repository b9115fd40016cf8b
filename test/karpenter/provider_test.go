package main

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
)

// requested is a provider whose instances have the requested resources, as those of the KWOK
// provider do.
type requested struct {
	cloudprovider.CloudProvider
	launches int
}

func (r *requested) Create(_ context.Context, claim *v1.NodeClaim) (*v1.NodeClaim, error) {
	r.launches++
	launched := claim.DeepCopy()
	launched.Labels[corev1.LabelInstanceTypeStable] = "standard-16"
	launched.Status.Capacity = claim.Spec.Resources.Requests
	return launched, nil
}

func newClaim(name string) *v1.NodeClaim {
	return &v1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			v1.NodePoolLabelKey: "desktops", corev1.LabelHostname: name,
		}},
		Spec: v1.NodeClaimSpec{
			NodeClassRef: &v1.NodeClassReference{Name: "desktops"},
			Resources:    v1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}},
		},
	}
}

func standard() []*cloudprovider.InstanceType {
	return []*cloudprovider.InstanceType{{
		Name:     "standard-16",
		Capacity: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("16")},
		Overhead: &cloudprovider.InstanceTypeOverhead{KubeReserved: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}},
	}}
}

func TestInstancesHaveTheResourcesOfTheirType(t *testing.T) {
	p := newProvider(&requested{}, standard(), faultReader{newCluster(t)})
	launched, err := p.Create(t.Context(), newClaim("a"))
	if err != nil {
		t.Fatal(err)
	}
	if got := launched.Status.Capacity.Cpu().String(); got != "16" {
		t.Errorf("the capacity is %s, want 16", got)
	}
	if got := launched.Status.Allocatable.Cpu().String(); got != "15900m" {
		t.Errorf("%s is allocatable, want 15900m", got)
	}
}

func TestAnUnknownInstanceTypeIsAnError(t *testing.T) {
	p := newProvider(&requested{}, nil, faultReader{newCluster(t)})
	if launched, err := p.Create(t.Context(), newClaim("a")); err == nil {
		t.Errorf("launched %+v", launched)
	}
}

func TestLaunchesFailWithoutCapacity(t *testing.T) {
	kube := newCluster(t, faultsConfig(map[string]string{"desktops": `{"insufficientCapacity":"none in a"}`}))
	kwok := &requested{}
	p := newProvider(kwok, standard(), faultReader{kube})
	if _, err := p.Create(t.Context(), newClaim("a")); !cloudprovider.IsInsufficientCapacityError(err) {
		t.Errorf("%v, want an InsufficientCapacityError", err)
	}
	other := newClaim("b")
	other.Labels[v1.NodePoolLabelKey] = "others"
	if _, err := p.Create(t.Context(), other); err != nil {
		t.Errorf("of another NodePool: %v", err)
	}
	if kwok.launches != 1 {
		t.Errorf("%d instances were launched, want that of the other NodePool", kwok.launches)
	}
}

func TestTheProviderCreatesNoNodes(t *testing.T) {
	kube := newCluster(t)
	ctx, c := t.Context(), withoutNodes{kube}
	for _, object := range []client.Object{
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default"}},
	} {
		if err := c.Create(ctx, object); err != nil {
			t.Fatal(err)
		}
	}
	var nodes corev1.NodeList
	var configs corev1.ConfigMapList
	if err := kube.List(ctx, &nodes); err != nil {
		t.Fatal(err)
	}
	if err := kube.List(ctx, &configs); err != nil {
		t.Fatal(err)
	}
	if len(nodes.Items) != 0 || len(configs.Items) != 1 {
		t.Errorf("%d nodes and %d ConfigMaps, want 0 and 1", len(nodes.Items), len(configs.Items))
	}
}
