package nodegroup

import (
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// maxRejection limits the message of a rejection, in bytes, so that the message that quotes it has space for the
// remedy.
const maxRejection = 360

// rejects are the reasons of the events by which autoscalers state that they add no node for a Pod, and adds those
// by which they state that they do.
var (
	rejects = map[Autoscaler]string{Karpenter: "FailedScheduling", ClusterAutoscaler: "NotTriggerScaleUp"}
	adds    = map[Autoscaler]string{Karpenter: "Nominated", ClusterAutoscaler: "TriggeredScaleUp"}
)

// The texts with which their messages begin. Karpenter's also distinguishes its event from that of
// kube-scheduler, which has the same reason: providers run Karpenter under other names too.
const (
	karpenterPrefix         = "Failed to schedule pod"
	clusterAutoscalerPrefix = "pod didn't trigger scale-up"
)

var (
	// limits matches messages that name a limit of the autoscaler, or its backoff. A message has the causes of all
	// groups, any of which may end.
	limits = regexp.MustCompile(`exceed limits|limit reached|max node group size reached|in backoff`)
	// shown matches causes that the state of a group shows, and their end.
	shown = regexp.MustCompile(`in backoff|max node group size reached|not ready for scale-up`)
)

// isShown reports whether the states of groups show all causes of a rejection: its autoscaler could serve the Pod.
func isShown(message string) bool {
	causes := strings.Split(causeIn(message), ", ")
	return !slices.ContainsFunc(causes, func(cause string) bool { return !shown.MatchString(cause) })
}

// RejectionsOf returns the rejections of a Pod that its events show, at most one of each autoscaler. One does not
// count if the autoscaler has since stated that it adds a node, or that a group could.
func RejectionsOf(pod types.UID, events []corev1.Event) (out []Rejection) {
	for _, by := range []Autoscaler{ClusterAutoscaler, Karpenter} {
		var last Rejection
		var served time.Time // when it last stated that a group adds a node, or could
		for i := range events {
			e := &events[i]
			at := eventTime(e)
			rejected := e.Reason == rejects[by] && (by != Karpenter || strings.HasPrefix(e.Message, karpenterPrefix))
			switch {
			case e.InvolvedObject.UID != pod:
			case e.Reason == adds[by] || rejected && isShown(e.Message):
				served = slices.MaxFunc([]time.Time{served, at}, time.Time.Compare)
			case rejected && at.After(last.Time):
				last = Rejection{By: by, Message: causeIn(e.Message), Time: at, Limited: limits.MatchString(e.Message)}
			}
		}
		if last.Time.After(served) {
			out = append(out, last)
		}
	}
	return out
}

// eventTime returns when an event last happened, whichever API wrote it.
func eventTime(e *corev1.Event) time.Time {
	times := []time.Time{e.LastTimestamp.Time, e.EventTime.Time, e.FirstTimestamp.Time, e.CreationTimestamp.Time}
	if e.Series != nil {
		times = append(times, e.Series.LastObservedTime.Time)
	}
	return slices.MaxFunc(times, time.Time.Compare)
}

// causeIn returns the cause in the message of a rejection.
func causeIn(message string) string {
	for prefix, separator := range map[string]string{karpenterPrefix: ", ", clusterAutoscalerPrefix: ": "} {
		if rest, ok := strings.CutPrefix(message, prefix); ok {
			if _, cause, found := strings.Cut(rest, separator); found {
				message = cause
			}
		}
	}
	return shortened(strings.TrimSuffix(strings.TrimSpace(message), "."))
}

// shortened returns the beginning of a text that is too long, up to the end of a word if possible.
func shortened(text string) string {
	if len(text) <= maxRejection {
		return text
	}
	text = strings.ToValidUTF8(text[:maxRejection], "")
	if end := strings.LastIndexByte(text, ' '); end > 0 {
		text = text[:end]
	}
	return text + " …"
}
