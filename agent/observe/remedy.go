package observe

import api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"

// finding is what is wrong, or not done yet: the reason of a condition that is
// False, and the beginning of its message, to which the remedy is added.
type finding struct {
	reason, what string
}

func (f finding) message() string {
	if r, ok := rules[f.reason]; ok {
		return cut(f.what, maxMessage-len(r.remedy)-3) + ": " + r.remedy + "."
	}
	return sentence(f.what)
}

// patience is what must be the case before an attempt fails.
type patience int

const (
	// atOnce is for what a retry can't help.
	atOnce patience = iota
	// forAWhile requires that it has been so for Patience.FailAfter.
	forAWhile
	// forRestarts also requires that the desktop was started Patience.Restarts times.
	forRestarts
	// forEndings also requires that Patience.Endings Pods have ended in a row.
	forEndings
	// untilReady also requires that the desktop has never been ready in this run.
	untilReady
)

// rule is the remedy, and when an attempt fails without it.
type rule struct {
	patience patience
	remedy   string
}

// rules for the reasons that end an attempt. No other reason ever does:
//
//   - PodUnschedulable, Binding: an autoscaler or an administrator may add nodes
//     and volumes, and knows better than we when.
//   - QuotaExceeded, NameTaken, HomeInUse: another owner may release it.
//   - NodeLost: the desktop may still run there.
//   - SecretMissing: the hub sends it again.
//   - GuardUnavailable: the member's administrator can repair it, its user can't.
//   - ApplyFailed: a webhook or a permission can change; Problem.Invalid is for what
//     the API server calls invalid, which can't.
//   - Starting, PodPending: the kubelet ends what takes longer than the
//     template's startTimeout, and then it is a crash loop.
var rules = map[string]rule{
	api.ReasonClaimLost:      {atOnce, "restore it, or delete the claim to begin with an empty home"},
	api.ReasonImagePull:      {forAWhile, "push it, or correct the template's image or its pull secret"},
	api.ReasonContainerError: {forAWhile, "correct the template, or what it names in the member"},
	api.ReasonCrashLoop:      {forRestarts, "look at its logs, and correct the image or the template"},
	api.ReasonOutOfMemory:    {forRestarts, "give it more memory, by the session or the template"},
	api.ReasonPodFailed:      {forEndings, "look at the Pod's logs and at its node, and correct the template"},
	api.ReasonEvicted:        {forEndings, "give the desktop more of it, or the member's nodes"},
	api.ReasonPodNotReady:    {untilReady, "look at its logs, and correct the image or the template's port"},
}
