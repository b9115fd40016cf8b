package kubelet

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The exit codes of containers that failed, or were ended by SIGKILL or SIGTERM.
const (
	exitFailed     = 1
	exitKilled     = 137
	exitTerminated = 143
)

// The reasons of the waiting state, as a kubelet reports them.
const (
	waitsForInit   = "PodInitializing"
	waitsForCreate = "ContainerCreating"
	waitsForConfig = "CreateContainerConfigError"
	waitsForImage  = "ImagePullBackOff"
	waitsForName   = "InvalidImageName"
	waitsAfterEnd  = "CrashLoopBackOff"
)

// The back-off of restarts, in seconds of the Pod's spec: none before the first restart, then
// firstBackOff, doubled each time up to lastBackOff.
const (
	firstBackOff = 10
	lastBackOff  = 300
	// configRetry is the retry interval of a container whose command cannot be prepared.
	configRetry = time.Second
)

// lost is the termination reason of a container whose end no kubelet observed.
const lost = "ContainerStatusUnknown"

// A container is a container of a Pod, across its restarts.
type container struct {
	pod  *pod
	spec *corev1.Container
	init bool

	// process is the current run, nil if there is none.
	process process
	// generation changes with each start and end; callbacks of an earlier one do nothing.
	generation int
	// delayed is set while the start is delayed, for waitingReason.
	delayed       bool
	waitingReason string
	// done is true once it is not started any more.
	done     bool
	restarts int32

	// stopping is true after SIGTERM; the container is killed at killAt if it still runs.
	stopping bool
	killAt   time.Time

	started, ready bool
	startedAt      metav1.Time
	last           *corev1.ContainerStateTerminated // nil before its first end
}

// sidecar reports whether it is an init container that runs beside the later ones.
func (c *container) sidecar() bool {
	return c.init && c.spec.RestartPolicy != nil && *c.spec.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// real reports whether it is executed as a process.
func (c *container) real() bool { return c.spec.Name == GuardContainer || c.spec.Name == GateContainer }

// allowsNext reports whether the containers after an init container may start.
func (c *container) allowsNext() bool {
	if c.sidecar() {
		return c.process != nil && c.started
	}
	return c.done
}

// shouldRestart reports whether a container that ended with the code is restarted.
func (c *container) shouldRestart(code int32) bool {
	switch policy := c.pod.object.Spec.RestartPolicy; {
	case c.sidecar():
		return true
	case c.init && code == 0:
		return false
	default:
		return policy == corev1.RestartPolicyAlways || policy == corev1.RestartPolicyOnFailure && code != 0
	}
}

// ensure starts the container unless it runs or must not run.
func (c *container) ensure() {
	k := c.pod.k
	if c.process != nil || c.done || c.delayed {
		return
	}
	switch b := c.behavior(); {
	case b.misnamed:
		c.waitingReason = waitsForName
		return
	case b.unpulled:
		c.waitingReason = waitsForImage
		return
	}
	if !c.real() {
		c.start(func(ended func(int32)) (process, error) { return k.simulate(c, ended), nil })
		return
	}
	// Secrets and ConfigMaps are read outside of the loop.
	c.delayed, c.waitingReason = true, waitsForCreate
	object, ip, generation := c.pod.object, c.pod.ip, c.generation
	go func() {
		command, err := k.command(object, c.spec, ip)
		k.loop.do(func() {
			if c.generation != generation || c.done {
				return
			}
			if err != nil {
				k.logError("preparing "+c.spec.Name, object, err)
				c.hold(waitsForConfig, configRetry)
				return
			}
			c.delayed = false
			c.start(func(ended func(int32)) (process, error) { return k.execute(command, ended) })
			c.pod.advance()
		})
	}()
}

// hold delays the next start by d.
func (c *container) hold(reason string, d time.Duration) {
	c.delayed, c.waitingReason = true, reason
	c.later(d, func() {
		c.delayed = false
		c.pod.advance()
	})
	c.pod.report()
}

// later calls f after d, unless the container has started or ended by then.
func (c *container) later(d time.Duration, f func()) {
	generation := c.generation
	c.pod.k.loop.after(d, func() {
		if c.generation == generation && !c.done {
			f()
		}
	})
}

func (c *container) start(launch func(ended func(int32)) (process, error)) {
	k := c.pod.k
	c.generation++
	c.stopping, c.started, c.ready = false, false, false
	c.startedAt = metav1.Now()
	k.record(c, Record{What: Start})
	generation := c.generation
	started, err := launch(func(code int32) {
		k.loop.do(func() {
			if c.generation == generation {
				c.ended(code)
			}
		})
	})
	if err != nil {
		k.logError("starting "+c.spec.Name, c.pod.object, err)
		k.loop.do(func() { c.ended(exitFailed) })
		c.process = failedProcess{}
		return
	}
	c.process = started
	c.probeStart()
}

// stop sends SIGTERM to a running container, and kills it after grace.
func (c *container) stop(reason string, grace time.Duration) {
	if c.process == nil {
		return
	}
	killAt := time.Now().Add(grace)
	if c.stopping && !killAt.Before(c.killAt) {
		return
	}
	c.killAt = killAt
	if !c.stopping {
		c.stopping = true
		c.pod.k.record(c, Record{What: Stop, Reason: reason})
		c.process.term()
	}
	// Not c.later, which skips containers that are done: this one may still have to end.
	generation := c.generation
	c.pod.k.loop.after(grace, func() {
		if c.generation == generation && c.process != nil {
			c.process.kill()
		}
	})
}

func (c *container) ended(code int32) {
	c.generation++
	c.process, c.started, c.ready = nil, false, false
	c.pod.k.record(c, Record{What: Exit, ExitCode: code})
	ran := time.Since(c.startedAt.Time)
	c.last = &corev1.ContainerStateTerminated{
		ExitCode: code, Reason: endReason(code), StartedAt: c.startedAt, FinishedAt: metav1.Now(),
	}
	switch {
	case c.pod.killing || !c.shouldRestart(code):
		c.done = true
	default:
		wait := c.backOff(ran)
		c.restarts++
		c.hold(waitsAfterEnd, wait)
	}
	c.pod.advance()
}

// backOff returns the delay of a restart: 0 for the first one and after a long run.
func (c *container) backOff(ran time.Duration) time.Duration {
	k := c.pod.k
	if c.restarts == 0 || ran > 2*k.seconds(lastBackOff) {
		return 0
	}
	return min(k.seconds(firstBackOff)<<min(c.restarts-1, 10), k.seconds(lastBackOff))
}

// lose sets the state of a container that ended in a power cut, from the status that the
// previous kubelet wrote.
func (c *container) lose(before corev1.ContainerStatus) {
	ran := before.State.Running != nil || before.State.Terminated != nil || before.LastTerminationState.Terminated != nil
	if !ran || c.init && !c.sidecar() {
		return
	}
	c.restarts = before.RestartCount
	c.last = &corev1.ContainerStateTerminated{ExitCode: exitKilled, Reason: lost, FinishedAt: metav1.Now()}
	if ended := before.State.Terminated; ended != nil {
		c.last = ended
	}
	if c.shouldRestart(c.last.ExitCode) {
		c.restarts++
		return
	}
	c.done = true
}

func endReason(code int32) string {
	if code == 0 {
		return "Completed"
	}
	return "Error"
}

func (c *container) status() corev1.ContainerStatus {
	started := c.process != nil && c.started
	status := corev1.ContainerStatus{
		Name: c.spec.Name, Image: c.spec.Image, RestartCount: c.restarts,
		Ready: c.process != nil && c.ready, Started: &started,
	}
	switch {
	case c.process != nil:
		status.State.Running = &corev1.ContainerStateRunning{StartedAt: c.startedAt}
	case c.done && c.last != nil:
		status.State.Terminated = c.last
		if c.init && !c.sidecar() {
			status.Ready = c.last.ExitCode == 0
		}
		return status
	default:
		reason := c.waitingReason
		if reason == "" {
			reason = waitsForInit
		}
		status.State.Waiting = &corev1.ContainerStateWaiting{Reason: reason}
	}
	if c.last != nil {
		status.LastTerminationState.Terminated = c.last
	}
	return status
}
