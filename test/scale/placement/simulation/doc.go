// Package simulation replays a trace through the production hub/placement and
// agent/capacity, in simulated time. It uses no clock and no random numbers: the
// same trace and options have the same result.
//
// What is real: every decision is placement.Place with a placement.Ledger;
// reservations last from the decision until a report counts the assignment; a
// report comes from a capacity.Model of the member, is debounced, and reaches the
// hub a delay later. What is modeled, and how:
//
//   - The link: each message takes Options.Link. A member that is cut off receives
//     and sends nothing; on its return both sides report what they have, as an
//     inventory does.
//   - The member: an assignment is refused (NoCapacity) if the model has no capacity for
//     it when it arrives. A Pod is created Options.Schedule later and bound to the
//     node that kube-scheduler's LeastAllocated would choose. A Pod without a node
//     is pending until one fits.
//   - The hub: a refused session is placed in the next best member at once, three
//     times in a row, then after a backoff. One that fits nowhere is pending, with its
//     equivalence class, until a member reports a change. A session whose Pod is
//     unschedulable for 10 s and never ran is moved, if it fits another member.
//   - A member that is cut off gets no sessions after 15 s; after 100 s its
//     sessions are rescheduled where there is capacity, twenty a second (Restart). It
//     gets sessions again 30 s after its return, and stops what was rescheduled.
//   - A lost node loses its Pods; the member recreates them.
//
// The queue's order among tenants is not simulated: pending sessions are served by age.
package simulation
