// Package observe derives the status of an assignment from its children: the conditions
// HomeReady, PodReady and EndpointReady, one sentence on what is waited for, which config
// the desktop has and which Secrets are missing, when the desktop was first ready, on which
// node, and how long it has run. It decides when an attempt has failed, which is the
// status' failure and the condition Progressing.
//
// The package is pure: the time and the children are parameters.
//
// Invariants:
//   - Each of the three conditions always exists, with a reason of api/v1alpha1 and a
//     message of what is waited for and, if there is one, the remedy. Progressing exists,
//     and is False, while the attempt has failed.
//   - What ends an attempt is in one table, rules, with the remedy. Nothing else does, and
//     a desktop that is ready never fails.
//   - While there is a Pod, no condition states that there is none: the hub releases home
//     and slot according to PodReady.
//   - The same children and the same status before give the same status, so a reconcile
//     without a change writes nothing.
//   - A condition's transition time moves only when its status does.
//   - No message is longer than 1,000 bytes, and quoted errors are cut before the remedy
//     is.
package observe
