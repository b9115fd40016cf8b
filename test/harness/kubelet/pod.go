package kubelet

import (
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// lastGrace is the minimum grace period of a sidecar, in seconds of the Pod's spec, when the
// containers before it have used up that of the Pod.
const lastGrace = 2

// localhost is the address of Pods that another process serves.
const localhost = "127.0.0.1"

// A pod is a Pod bound to a simulated node, until its object is deleted and its containers
// have ended.
type pod struct {
	k      *kubelet
	object *corev1.Pod // last observed
	ip     string
	inits  []*container
	mains  []*container

	startTime metav1.Time
	// initialized is true once main containers have started; from then on each container is
	// restarted independently.
	initialized bool
	// killing is true when all containers must end by deadline; none is started any more.
	killing  bool
	deadline time.Time
	reason   string
	// over is true once all containers have ended and none is started any more.
	over bool
	// objectDeleted is true once the object is deleted: there is no status to write.
	objectDeleted bool
	conditions    []corev1.PodCondition
}

// newPod returns the state of a Pod that this kubelet observes for the first time.
func (k *kubelet) newPod(object *corev1.Pod) *pod {
	p := &pod{k: k, object: object, startTime: metav1.Now(), conditions: slices.Clone(object.Status.Conditions)}
	if object.Status.StartTime != nil {
		p.startTime = *object.Status.StartTime
	}
	for i := range object.Spec.InitContainers {
		p.inits = append(p.inits, &container{pod: p, spec: &object.Spec.InitContainers[i], init: true})
	}
	for i := range object.Spec.Containers {
		p.mains = append(p.mains, &container{pod: p, spec: &object.Spec.Containers[i]})
	}
	if terminal(object.Status.Phase) {
		p.over = true
		return p
	}
	if p.mains[0].behavior().local {
		p.ip = localhost
	} else {
		p.ip = k.network.take().String()
	}
	p.restore()
	return p
}

// showsRunning reports whether a container's status is Running. In a terminal phase this
// means that another client set the phase, as the Pod garbage collector does.
func showsRunning(object *corev1.Pod) bool {
	return slices.ContainsFunc(slices.Concat(object.Status.InitContainerStatuses, object.Status.ContainerStatuses),
		func(s corev1.ContainerStatus) bool { return s.State.Running != nil })
}

func terminal(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}

// restore starts from the status that the previous kubelet wrote before a power cut: what
// ran then has ended.
func (p *pod) restore() {
	before := map[string]corev1.ContainerStatus{}
	for _, status := range slices.Concat(p.object.Status.InitContainerStatuses, p.object.Status.ContainerStatuses) {
		before[status.Name] = status
	}
	ended := true
	for _, c := range p.all() {
		if status, ok := before[c.spec.Name]; ok {
			c.lose(status)
		}
		ended = ended && (c.init || c.done)
	}
	if ended || p.object.DeletionTimestamp != nil {
		p.finish()
	}
}

func (p *pod) all() []*container { return slices.Concat(p.inits, p.mains) }

// update handles a change of the Pod's object.
func (p *pod) update(object *corev1.Pod) {
	p.object = object
	p.k.writer.repair(object)
	for i, c := range p.mains { // an image may be corrected
		if i < len(object.Spec.Containers) && c.process == nil {
			c.spec = &object.Spec.Containers[i]
		}
	}
	if object.DeletionTimestamp != nil {
		p.kill(p.deletionGrace(), "deleted")
	}
	p.advance()
}

// handleDeletion handles the deletion of the object, by this kubelet or by force while containers may
// still run.
func (p *pod) handleDeletion() {
	p.objectDeleted = true
	p.kill(p.grace(), "gone")
	p.advance()
}

// grace returns the Pod's termination grace period, at least 1 s.
func (p *pod) grace() time.Duration {
	seconds := int64(corev1.DefaultTerminationGracePeriodSeconds)
	if own := p.object.Spec.TerminationGracePeriodSeconds; own != nil {
		seconds = max(*own, 1)
	}
	return p.k.seconds(seconds)
}

// deletionGrace returns the grace period of the Pod's deletion. A forced deletion gets that
// of the Pod's spec, as with a real kubelet.
func (p *pod) deletionGrace() time.Duration {
	if seconds := p.object.DeletionGracePeriodSeconds; seconds != nil && *seconds > 0 {
		return p.k.seconds(*seconds)
	}
	return p.grace()
}

// kill ends all containers within a grace period. A further call applies only if its deadline
// is earlier.
func (p *pod) kill(grace time.Duration, reason string) {
	deadline := time.Now().Add(grace)
	if p.over || p.killing && !deadline.Before(p.deadline) {
		return
	}
	p.killing, p.deadline, p.reason = true, deadline, reason
}

// advance starts or stops what is due, and reports the Pod's status.
func (p *pod) advance() {
	if p.k.pods[p.object.UID] != p {
		return // it has been dropped
	}
	switch {
	case p.over:
	case p.killing:
		p.stopContainers()
	default:
		p.startDue()
	}
	p.report()
	if p.over && p.objectDeleted {
		p.k.drop(p)
	}
}

// startDue starts the containers that are due.
func (p *pod) startDue() {
	for _, c := range p.inits {
		c.ensure()
		if !p.initialized && !c.allowsNext() {
			return
		}
	}
	p.initialized = true
	ended := true
	for _, c := range p.mains {
		c.ensure()
		ended = ended && c.done
	}
	if ended {
		p.kill(p.grace(), "completed")
		p.stopContainers()
	}
}

// stopContainers stops the main containers, and after the last of them the sidecars, in reverse order.
func (p *pod) stopContainers() {
	busy := false
	for _, c := range p.all() {
		switch {
		case c.process == nil:
			c.done = true
		case !c.sidecar():
			c.stop(p.reason, time.Until(p.deadline))
			busy = true
		}
	}
	if busy {
		return
	}
	for _, c := range slices.Backward(p.inits) {
		if c.process != nil {
			c.stop(p.reason, max(time.Until(p.deadline), p.k.seconds(lastGrace)))
			return
		}
	}
	p.finish()
}

// finish marks the Pod as ended and releases its address.
func (p *pod) finish() {
	p.over = true
	for _, c := range p.all() {
		c.done = true
	}
	if address, err := netip.ParseAddr(p.ip); err == nil {
		p.k.network.release(address)
	}
}

// report passes the Pod's status to the writer.
func (p *pod) report() {
	if p.objectDeleted || p.k.lost[p.object.Spec.NodeName] {
		return
	}
	remove := p.over && p.object.DeletionTimestamp != nil
	if !terminal(p.object.Status.Phase) || p.over && showsRunning(p.object) {
		p.k.writer.put(p.object, p.status(), remove)
	} else if remove {
		p.k.writer.remove(p.object)
	}
}
