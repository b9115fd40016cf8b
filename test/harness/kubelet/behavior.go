package kubelet

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The annotations by which a Pod overrides how long its containers take; KWOK's stages use
// them too.
const (
	startDelayAnnotation = "harness.vdi.kasm.io/start-delay"
	stopDelayAnnotation  = "harness.vdi.kasm.io/stop-delay"
	lostAnnotation       = "harness.vdi.kasm.io/lost"
)

// The prefixes of image names that change what a container does, as in KWOK's stages.
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

// behavior describes a simulated container.
type behavior struct {
	// listens is the time from its start until it opens its ports; stops is the time from
	// SIGTERM until it ends, as a desktop saves its work.
	listens, stops time.Duration
	// crashes is the time from its start until it fails; 0 means never.
	crashes time.Duration
	// unpulled means that its image cannot be pulled; misnamed, that its name is invalid.
	unpulled, misnamed bool
	// local means that another process of this machine serves it, at 127.0.0.1.
	local bool
}

// behave returns the behavior of a container of a Pod by its image and the Pod's annotations;
// defaults apply to an ordinary one.
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
