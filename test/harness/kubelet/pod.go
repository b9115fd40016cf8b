package kubelet

import (
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// lastGrace is what a sidecar has at the least, in seconds of the Pod's, when
// those before it have used up the Pod's grace.
const lastGrace = 2

// localhost is the address of Pods that another process answers for.
const localhost = "127.0.0.1"

// A pod is one that is bound to a simulated node, until its object is gone and
// nothing runs of it.
type pod struct {
	k      *kubelet
	object *corev1.Pod // as it was last seen
	ip     string
	inits  []*container
	mains  []*container

	startTime metav1.Time
	// initialized: main containers have started once; from then on each is started
	// again for itself.
	initialized bool
	// killing: all is to end by deadline, and nothing starts any more.
	killing  bool
	deadline time.Time
	reason   string
	// over: nothing runs, and nothing will.
	over bool
	// vanished: there is no object any more, so there is nothing to report.
	vanished   bool
	conditions []corev1.PodCondition
}

// newPod is one that this kubelet sees for the first time.
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
	p.takeOver()
	return p
}

// showsRunning: another client has made the Pod's phase terminal, as the Pod garbage
// collector does.
func showsRunning(object *corev1.Pod) bool {
	return slices.ContainsFunc(slices.Concat(object.Status.InitContainerStatuses, object.Status.ContainerStatuses),
		func(s corev1.ContainerStatus) bool { return s.State.Running != nil })
}

func terminal(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}

// takeOver starts from what the last kubelet wrote before it lost its power: what
// ran then has ended.
func (p *pod) takeOver() {
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

// vanish handles that the object is gone: by the kubelet's own deletion, or because
// it was deleted by force while something may still run.
func (p *pod) vanish() {
	p.vanished = true
	p.kill(p.grace(), "gone")
	p.advance()
}

// grace is what the Pod's containers have to end.
func (p *pod) grace() time.Duration {
	seconds := int64(corev1.DefaultTerminationGracePeriodSeconds)
	if own := p.object.Spec.TerminationGracePeriodSeconds; own != nil {
		seconds = max(*own, 1)
	}
	return p.k.seconds(seconds)
}

// deletionGrace is the grace period of its deletion. One that is forced has its own
// grace period nevertheless, as with a real kubelet.
func (p *pod) deletionGrace() time.Duration {
	if seconds := p.object.DeletionGracePeriodSeconds; seconds != nil && *seconds > 0 {
		return p.k.seconds(*seconds)
	}
	return p.grace()
}

// kill ends all containers within a grace period. It may be called again, and counts
// if it is sooner.
func (p *pod) kill(grace time.Duration, reason string) {
	deadline := time.Now().Add(grace)
	if p.over || p.killing && !deadline.Before(p.deadline) {
		return
	}
	p.killing, p.deadline, p.reason = true, deadline, reason
}

// advance does what is to be done next, and reports the Pod's status.
func (p *pod) advance() {
	if p.k.pods[p.object.UID] != p {
		return // it has been dropped
	}
	switch {
	case p.over:
	case p.killing:
		p.wind()
	default:
		p.bring()
	}
	p.report()
	if p.over && p.vanished {
		p.k.drop(p)
	}
}

// bring starts what is to run.
func (p *pod) bring() {
	for _, c := range p.inits {
		c.ensure()
		if !p.initialized && !c.letsOn() {
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
		p.wind()
	}
}

// wind ends main containers, and when the last of them has ended, sidecars, the
// last one first.
func (p *pod) wind() {
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

// finish records that nothing runs and nothing will.
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
	if p.vanished || p.k.lost[p.object.Spec.NodeName] {
		return
	}
	remove := p.over && p.object.DeletionTimestamp != nil
	if !terminal(p.object.Status.Phase) || p.over && showsRunning(p.object) {
		p.k.writer.put(p.object, p.status(), remove)
	} else if remove {
		p.k.writer.remove(p.object)
	}
}
