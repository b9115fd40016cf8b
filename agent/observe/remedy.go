package observe

import api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"

// finding is the reason of a condition that is False, and the beginning of its message, to
// which the remedy is added.
type finding struct {
	reason, what string
}

func (f finding) message() string {
	if r, ok := rules[f.reason]; ok {
		return truncate(f.what, maxMessage-len(r.remedy)-3) + ": " + r.remedy + "."
	}
	return sentence(f.what)
}

// failurePolicy is when an attempt fails.
type failurePolicy int

const (
	// immediately is for problems that a retry can't cure.
	immediately failurePolicy = iota
	// afterTime requires that the problem has lasted for RetryLimits.FailAfter.
	afterTime
	// afterRestarts also requires RetryLimits.Restarts restarts of the desktop.
	afterRestarts
	// afterEndings also requires that RetryLimits.Endings Pods have ended in a row.
	afterEndings
	// ifNeverReady also requires that the desktop was never ready in this run.
	ifNeverReady
)

// rule is when an attempt fails, and the remedy.
type rule struct {
	policy failurePolicy
	remedy string
}

// rules has the reasons that fail an attempt. Others do not:
//
//   - PodUnschedulable, NodeProvisioning, ScaleUpFailed, Binding: an autoscaler or an
//     administrator may add nodes and volumes.
//   - QuotaExceeded, NameTaken, HomeInUse: another owner may release it.
//   - NodeLost: the desktop may still run there.
//   - SecretMissing: the hub resends it.
//   - GuardUnavailable: only the member's administrator can remedy it.
//   - ApplyFailed: a webhook or a permission may change. An invalid object fails by
//     Problem.Invalid.
//   - Starting, PodPending: the kubelet stops a desktop after the template's
//     startTimeout, which becomes a crash loop.
var rules = map[string]rule{
	api.ReasonClaimLost:      {immediately, "restore it, or delete the claim to begin with an empty home"},
	api.ReasonImagePull:      {afterTime, "push it, or correct the template's image or its pull secret"},
	api.ReasonContainerError: {afterTime, "correct the template, or the objects that it names in the member"},
	api.ReasonCrashLoop:      {afterRestarts, "check its logs, and correct the image or the template"},
	api.ReasonOutOfMemory:    {afterRestarts, "raise the memory of the session or the template"},
	api.ReasonPodFailed:      {afterEndings, "check the Pod's logs and its node, and correct the template"},
	api.ReasonEvicted:        {afterEndings, "raise the desktop's resources, or add capacity to the member's nodes"},
	api.ReasonPodNotReady:    {ifNeverReady, "check its logs, and correct the image or the template's port"},
}
