package buffer

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/vdi-fleet/vdi-fleet/agent/capacity"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

const notEnabled = "the agent runs without buffers: set buffers.enabled of its chart"

// stateOf returns the state of a buffer with its Deployment, nil if there is none. failed is why the Deployment
// can't be as it is to be; empty if it is.
func stateOf(b *capacity.Buffer, class *capacity.BufferClass, d *appsv1.Deployment, failed string) *fleetv1.BufferStatus {
	s := &fleetv1.BufferStatus{Template: b.Template}
	if d != nil {
		replicas := ptr.Deref(d.Spec.Replicas, 0)
		s.Held = min(d.Status.ReadyReplicas, replicas)
		s.Pending = replicas - s.Held
	}
	s.Reason, s.Message = problemOf(b, class, d, failed)
	s.Message = convert.Sentence(s.Message, convert.MaxMessage)
	return s
}

// problemOf returns why a buffer is not kept, and empty texts if it is.
func problemOf(b *capacity.Buffer, class *capacity.BufferClass, d *appsv1.Deployment, failed string) (reason, message string) {
	if reason, message := classProblem(class); reason != "" {
		return reason, message
	}
	if b.Unavailable != "" {
		return v1alpha1.ReasonBufferUnavailable, b.Unavailable
	}
	if failed == "" {
		failed = replicaFailure(d)
	}
	switch {
	case failed != "":
		return v1alpha1.ReasonBufferFailed, failed
	case b.Requirements != nil && b.Fits < b.Slots:
		return v1alpha1.ReasonBufferCapacity, fmt.Sprintf(
			"%d of %d slots fit on the member's nodes and on those that its node groups may add: add nodes, raise the limit of a node group, or lower the slots of the buffer", b.Fits, b.Slots)
	}
	return "", ""
}

// classProblem returns why desktops could not preempt the Pods.
func classProblem(class *capacity.BufferClass) (reason, message string) {
	const name = "PriorityClass " + v1alpha1.BufferPriorityClass
	switch {
	case class == nil:
		return v1alpha1.ReasonBufferPriorityClass, "the member has no " + name + ": set buffers.enabled of the agent's chart, which creates it"
	case class.Value >= 0:
		return v1alpha1.ReasonBufferPriorityClass, fmt.Sprintf(
			"%s of the member has value %d, so that desktops would not preempt the buffer: delete it, and install the agent's chart again", name, class.Value)
	}
	return "", ""
}

// replicaFailure returns why Pods of a Deployment can't be created, and "" if they can.
func replicaFailure(d *appsv1.Deployment) string {
	if d == nil {
		return ""
	}
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			return fmt.Sprintf("Pods of Deployment %s/%s can't be created: %s", d.Namespace, d.Name, c.Message)
		}
	}
	return ""
}
