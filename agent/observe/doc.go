// Package observe derives the status of an assignment from its children: the conditions
// HomeReady, PodReady and EndpointReady with a message on what they wait for, the config,
// missing Secrets, start time, node and running time. It decides when an attempt has failed,
// and sets the failure and the condition Progressing.
//
// The package is pure: the time and the children are parameters.
//
// Invariants:
//   - Each of the three conditions always exists, with a reason of api/v1alpha1 and a
//     message of the cause and, if any, the remedy. Progressing is False while the attempt
//     has failed, and otherwise absent.
//   - Only the reasons in the table rules fail an attempt. A ready desktop never fails.
//   - While there is a Pod, PodReady does not state that there is none: the hub then
//     releases home and slot.
//   - The same children and the same status before give the same status, so a reconcile
//     without a change writes nothing.
//   - A condition's transition time moves only when its status does.
//   - No message is longer than 1,000 bytes, and quoted errors are truncated so that the
//     remedy is complete.
package observe
