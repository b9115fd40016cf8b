package render

import api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"

// RequiresStopProof reports whether a desktop counts as stopped only once its kubelet has
// reported it: it must never run twice, or it writes to a home.
func RequiresStopProof(a *api.SessionAssignment) bool {
	mode := a.Spec.FailoverMode
	return mode == api.FailoverHold || mode == api.FailoverFence || HasHome(a)
}
