// Package exposure keeps what leads browsers to the member's door (package agent/door): the ConfigMap with what the
// hub sends for it, and one Ingress or HTTPRoute for all hosts of the member's domain.
//
// Until the door has answered once, each desktop has an Ingress or HTTPRoute of its own, as without a door. From then on
// the door is in force, also while it does not answer, until the hub has no console any more or the door is
// disabled. The Service of the door owns all these objects, and they are deleted with it.
//
// Invariants: no desktop loses its Ingress before the door has answered; hosts are only below domains that the member's
// administrator allows.
package exposure
