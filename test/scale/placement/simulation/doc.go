// Package simulation replays a trace through the production hub/placement and
// agent/capacity, in simulated time. It reads no clock and draws no chance: the
// same trace and options have the same result.
//
// What is real: every decision is placement.Place with a placement.Ledger;
// reservations last from the decision until a report counts the assignment; a
// report is what a capacity.Model reports of the member, debounced, and known to the
// hub a delay later. What is modeled, and how:
//
//   - The link: each message takes Options.Link. A member that is cut off receives
//     and sends nothing; on its return both sides report what they have, as an
//     inventory does.
//   - The member: an assignment is refused (NoCapacity) if the model has no capacity for
//     it when it arrives. A Pod comes Options.Schedule later and goes to the
//     node that kube-scheduler's LeastAllocated would take. What finds no node
//     waits for one.
//   - The hub: a refusal sends a session to the next best at once, three times in
//     a row, then after a backoff. One that fits nowhere waits with its like until
//     a member reports a change. A Pod that is unschedulable for 10 s before it
//     ever ran loses its placement, if it fits another member.
//   - A member that is cut off takes no sessions after 15 s; after 100 s its
//     sessions are rescheduled where there is capacity, twenty a second (Restart). It
//     takes sessions again 30 s after its return, and stops what was rescheduled.
//   - A lost node takes its Pods with it; the member makes them again.
//
// The queue's order among tenants is not simulated: pending sessions are served by age.
package simulation
