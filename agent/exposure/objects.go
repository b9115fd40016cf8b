package exposure

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/vdi-fleet/vdi-fleet/agent/door"
	"github.com/vdi-fleet/vdi-fleet/agent/render"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// owner returns the reference to the door's Service.
func (k *Keeper) owner(ctx context.Context) (metav1.OwnerReference, error) {
	service := &corev1.Service{}
	if err := k.options.Store.Read(ctx, render.DoorName, service); err != nil {
		return metav1.OwnerReference{}, fmt.Errorf("reading Service %s: %w", render.DoorName, err)
	}
	if service.UID == "" {
		return metav1.OwnerReference{}, fmt.Errorf("there is no Service %s in namespace %s: set door.enabled of the agent's chart", render.DoorName, k.options.Store.Namespace)
	}
	return metav1.OwnerReference{APIVersion: "v1", Kind: "Service", Name: service.Name, UID: service.UID}, nil
}

// store writes the ConfigMap unless it is as it is to be.
func (k *Keeper) store(ctx context.Context, stored *corev1.ConfigMap, config *door.Config, owner metav1.OwnerReference, inForce bool) error {
	value, err := json.Marshal(config)
	if err != nil {
		return err
	}
	data := map[string]string{door.ConfigEntry: string(value)}
	if inForce {
		data[door.InForceEntry] = "true"
	}
	owners := []metav1.OwnerReference{owner}
	if maps.Equal(stored.Data, data) && slices.Equal(stored.OwnerReferences, owners) {
		return nil
	}
	stored.Data, stored.OwnerReferences = data, owners
	if err := k.options.Store.Write(ctx, door.ConfigMapName, stored); err != nil {
		return fmt.Errorf("storing ConfigMap %s: %w", door.ConfigMapName, err)
	}
	return nil
}

// lead creates or repairs the Ingress or HTTPRoute for all hosts of a domain.
func (k *Keeper) lead(ctx context.Context, domain string, owner metav1.OwnerReference) error {
	network := k.options.Network
	if network.Gateway != nil {
		want, have := render.DoorRoute(domain, network), &gatewayv1.HTTPRoute{}
		return k.ensure(ctx, "HTTPRoute", want, have, owner, func() bool {
			same := equality.Semantic.DeepEqual(have.Spec, want.Spec)
			have.Spec = want.Spec
			return same
		})
	}
	var classes networkingv1.IngressClassList
	if err := k.options.Classes.List(ctx, &classes); err != nil {
		return fmt.Errorf("listing Ingress classes: %w", err)
	}
	network.Controller = render.ControllerOf(classes.Items, k.options.IngressClass)
	want, have := render.DoorIngress(domain, network, k.options.IngressClass), &networkingv1.Ingress{}
	return k.ensure(ctx, "Ingress", want, have, owner, func() bool {
		if want.Spec.IngressClassName == nil { // the API server has set the default class
			want.Spec.IngressClassName = have.Spec.IngressClassName
		}
		same := equality.Semantic.DeepEqual(have.Spec, want.Spec)
		have.Spec = want.Spec
		return same
	})
}

// ensure creates or repairs an object. align makes the existing one as wanted, metadata apart, and reports whether it
// was so before.
func (k *Keeper) ensure(ctx context.Context, kind string, want, have client.Object, owner metav1.OwnerReference, align func() (same bool)) error {
	if err := k.options.Store.Read(ctx, render.DoorName, have); err != nil {
		if meta.IsNoMatchError(err) {
			return fmt.Errorf("the member does not serve HTTPRoutes, which --gateway needs: install the Gateway API: %w", err)
		}
		return fmt.Errorf("reading %s %s: %w", kind, render.DoorName, err)
	}
	owners := []metav1.OwnerReference{owner}
	if have.GetResourceVersion() == "" {
		want.SetOwnerReferences(owners)
		if err := k.options.Store.Write(ctx, render.DoorName, want); err != nil {
			return fmt.Errorf("creating %s %s: %w", kind, render.DoorName, err)
		}
		return nil
	}
	if have.GetLabels()[v1alpha1.LabelManagedBy] != v1alpha1.ManagedBy {
		return fmt.Errorf("there is already a %s %s in namespace %s, which the agent did not create: delete or rename it",
			kind, render.DoorName, k.options.Store.Namespace)
	}
	annotations := labels.Merge(have.GetAnnotations(), want.GetAnnotations())
	same := align() && labels.Equals(annotations, have.GetAnnotations()) && slices.Equal(have.GetOwnerReferences(), owners)
	if same || have.GetDeletionTimestamp() != nil {
		return nil
	}
	have.SetAnnotations(annotations)
	have.SetOwnerReferences(owners)
	if err := k.options.Store.Write(ctx, render.DoorName, have); err != nil {
		return fmt.Errorf("repairing %s %s: %w", kind, render.DoorName, err)
	}
	return nil
}

// retract removes what leads to the door, since the hub has no console any more: the sessions get Ingresses or
// HTTPRoutes of their own again.
func (k *Keeper) retract(ctx context.Context, stored *corev1.ConfigMap) error {
	k.set(false)
	if stored.ResourceVersion == "" {
		return nil
	}
	var route client.Object = &networkingv1.Ingress{}
	if k.options.Network.Gateway != nil {
		route = &gatewayv1.HTTPRoute{}
	}
	for _, o := range []client.Object{route, stored} {
		o.SetNamespace(k.options.Store.Namespace)
		o.SetName(render.DoorName)
		if err := k.options.Store.Client.Delete(ctx, o); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting %T %s: %w", o, render.DoorName, err)
		}
	}
	return nil
}
