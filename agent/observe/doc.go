// Package observe reads an assignment's children, as its member has them, into
// the status that the agent reports: the conditions HomeReady, PodReady and
// EndpointReady, one sentence on what is waited for, which config the desktop
// has and which Secrets are missing, when the desktop was first ready, on which
// node, and how long it has run. It decides when trouble is given up, and writes
// that down as the failure of an attempt and the condition Progressing.
//
// It is the sixth stop of a session's walk. The package is pure: what it needs
// of the clock is a parameter, and the children are given.
//
// Invariants:
//   - Each of the three conditions is always there, with a reason of
//     api/v1alpha1 and a message that says what is waited for, and, where
//     somebody can help, what would. Progressing is there while the attempt is
//     given up, and is False.
//   - What ends an attempt stands in one table, rules, with what would help.
//     Nothing else ever does, and a desktop that is ready is never given up.
//   - While there is a Pod, no condition says that there is none: the hub gives
//     home and slot back by what PodReady says.
//   - The same children and the same status before give the same status, so a
//     reconcile that finds nothing new writes nothing.
//   - A condition's transition time moves only when its status does.
//   - No message is longer than 1,000 bytes, and what others say within it is
//     cut before what would help is.
package observe
