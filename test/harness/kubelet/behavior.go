package kubelet

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The annotations by which a Pod sets how long its containers take, instead of
// the kubelet's own defaults; KWOK's stages use them too.
const (
	startDelayAnnotation = "harness.vdi.kasm.io/start-delay"
	stopDelayAnnotation  = "harness.vdi.kasm.io/stop-delay"
	lostAnnotation       = "harness.vdi.kasm.io/lost"
)

// What images other than the ordinary do, by the beginning of their names, as
// under KWOK's stages.
const (
	slowImages     = "slow.invalid/"
	brokenImages   = "broken.invalid/"
	crashingImages = "crash.invalid/"
	localImages    = "loopback.invalid/"
	badNameImages  = "badname.invalid/"
)

const (
	slowStart  = 3 * time.Second
	crashAfter = 500 * time.Millisecond
)

// behavior is what a container does that is no process.
type behavior struct {
	// listens is how long after its start it opens its ports; stops is how long it
	// takes to end on SIGTERM: a desktop saves its work.
	listens, stops time.Duration
	// crashes is how long after its start it ends by itself, 0 is never.
	crashes time.Duration
	// unpulled: its image can't be had; misnamed: it has a name that none can have.
	unpulled, misnamed bool
	// local: another process of this machine answers for it, at 127.0.0.1.
	local bool
}

// behave returns the behavior of a container by its Pod and image; defaults are those of
// an ordinary one.
func behave(pod *corev1.Pod, image string, defaults behavior) behavior {
	b := defaults
	switch {
	case strings.HasPrefix(image, slowImages):
		b.listens = slowStart
		if i := strings.LastIndex(image, ":"); i >= 0 {
			b.listens = durationOr(image[i+1:], slowStart)
		}
	case strings.HasPrefix(image, brokenImages):
		b.unpulled = true
	case strings.HasPrefix(image, badNameImages):
		b.misnamed = true
	case strings.HasPrefix(image, crashingImages):
		b.crashes = crashAfter
	case strings.HasPrefix(image, localImages):
		b.local = true
	}
	b.listens = durationOr(pod.Annotations[startDelayAnnotation], b.listens)
	b.stops = durationOr(pod.Annotations[stopDelayAnnotation], b.stops)
	return b
}

func durationOr(s string, otherwise time.Duration) time.Duration {
	if d, err := time.ParseDuration(s); err == nil {
		return d
	}
	return otherwise
}
