package kubelet

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// status returns the part of the Pod's status that a kubelet writes.
func (p *pod) status() corev1.PodStatus {
	host := p.k.network.host().String()
	status := corev1.PodStatus{
		Phase: p.phase(), StartTime: &p.startTime,
		HostIP: host, HostIPs: []corev1.HostIP{{IP: host}},
		PodIP: p.ip, PodIPs: []corev1.PodIP{{IP: p.ip}},
	}
	for _, c := range p.inits {
		status.InitContainerStatuses = append(status.InitContainerStatuses, c.status())
	}
	ready := !terminal(status.Phase)
	for _, c := range p.mains {
		one := c.status()
		if waiting := one.State.Waiting; waiting != nil && c.waitingReason == "" && p.initialized {
			waiting.Reason = waitsForCreate
		}
		status.ContainerStatuses = append(status.ContainerStatuses, one)
		ready = ready && one.Ready
	}
	for i, c := range p.inits {
		ready = ready && (!c.sidecar() || status.InitContainerStatuses[i].Ready)
	}
	p.setCondition(corev1.PodReadyToStartContainers, !p.over, "")
	p.setCondition(corev1.PodInitialized, p.initialized, "ContainersNotInitialized")
	p.setCondition(corev1.ContainersReady, ready, "ContainersNotReady")
	p.setCondition(corev1.PodReady, ready, "ContainersNotReady")
	for _, condition := range p.conditions {
		if condition.Type != corev1.PodScheduled { // the scheduler's
			status.Conditions = append(status.Conditions, condition)
		}
	}
	return status
}

// phase returns the Pod's phase. It is terminal once nothing runs any more, sidecars
// included, and Pending while an init container has to complete, also after a power cut.
func (p *pod) phase() corev1.PodPhase {
	atIt := func(c *container) bool { return !c.sidecar() && !c.done }
	if !p.over && !p.initialized && slices.ContainsFunc(p.inits, atIt) {
		return corev1.PodPending
	}
	if !p.over {
		for _, c := range p.mains {
			if c.process != nil || c.last != nil {
				return corev1.PodRunning
			}
		}
		return corev1.PodPending
	}
	for _, c := range p.mains {
		if c.last == nil || c.last.ExitCode != 0 {
			return corev1.PodFailed
		}
	}
	return corev1.PodSucceeded
}

// setCondition sets a condition; its transition time changes only with its status.
func (p *pod) setCondition(kind corev1.PodConditionType, holds bool, reasonIfNot string) {
	next := corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}
	if !holds {
		next.Status, next.Reason = corev1.ConditionFalse, reasonIfNot
		if reasonIfNot != "" && terminal(p.phase()) {
			next.Reason = "Pod" + string(p.phase())
		}
	}
	i := slices.IndexFunc(p.conditions, func(c corev1.PodCondition) bool { return c.Type == kind })
	switch {
	case i < 0:
		p.conditions = append(p.conditions, next)
	case p.conditions[i].Status == next.Status:
		next.LastTransitionTime = p.conditions[i].LastTransitionTime
		fallthrough
	default:
		p.conditions[i] = next
	}
}
