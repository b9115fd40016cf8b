// Package fence keeps the lease that RenewLease grants: the hub's permission to run fenced
// desktops. It implements mode Fence: a member whose lease has ended runs no fenced desktop,
// so that the hub may reschedule them later.
//
// lease.go is pure, and the Keeper does its I/O. agent/link reports renewals, agent/session
// checks whether a fenced desktop may run, and agent/guard answers guards.
//
// Invariants:
//   - A lease counts from when its renewal was sent, by CLOCK_BOOTTIME or the wall clock
//     less a skew, whichever shows that more time has passed. Neither a suspended machine
//     nor one that its hypervisor pauses lengthens it, nor does a clock that is set back.
//     A wall clock that is set forward by more than the skew ends it.
//   - Limitations: a desktop on a machine that was paused runs until the wall clock is
//     corrected, and then until the kubelet has probed its guard (15 s, and the grace
//     period). A guard that can't reach the agent does not detect a pause if the clock is
//     slewed afterwards rather than stepped. A pause shorter than the skew does not count.
//   - The lease is stored in the member, so that a new process of the agent continues it.
//     After a reboot, or on another node, the remaining time is computed by the wall
//     clock less the skew.
//   - The end of a lease is a lapse. Before another lease is valid, the lapse has a
//     durable number, and every assignment that the hub may count as guarded has it in
//     its status. None of them runs again before the hub has affirmed, with that number,
//     that it did not reschedule the session.
//   - They are marked only once the hub has granted a lease again: a mark implies a renewal
//     after the lapse, and an affirmation never crosses a failover that was decided from an
//     older one.
//   - Sessions without mode Fence, or without a guard, are not affected: the hub treats the
//     latter as mode Hold.
package fence
