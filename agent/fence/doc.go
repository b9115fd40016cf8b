// Package fence keeps the hub's permission to run fenced desktops: the lease that
// RenewLease grants. It implements mode Fence: a member without a renewal for as long as
// its lease runs no fenced desktop, and so the hub may reschedule them some time later.
//
// lease.go is pure, the Keeper around it does the I/O. agent/link reports renewals,
// agent/session checks whether a fenced desktop may run, agent/guard answers the guards
// beside the desktops.
//
// Invariants:
//   - A lease counts from when its renewal was sent, never from when it was
//     answered, by CLOCK_BOOTTIME or the wall clock less a skew, whichever shows that
//     more time has passed: neither a suspended machine nor one that its hypervisor
//     pauses lengthens it, nor does a clock that is set back. A wall clock that is
//     set forward by more than the skew ends it.
//   - What remains: a desktop on a machine that was paused runs until the wall clock is
//     right again, and then until the kubelet has probed its guard (15 s, and the grace
//     period). A clock that is slewed rather than stepped after a pause ends what the
//     agent knows of, and not what a guard does that can't reach the agent. A pause
//     shorter than the skew does not count.
//   - It is stored in the member, so that a new process of the agent continues it. After
//     another boot, or on another node, the remaining time is computed by the wall clock
//     less the skew.
//   - The end of a lease is a lapse. Before another lease is valid, the lapse has a
//     number that is durable, and every assignment that the hub may count as guarded has
//     it in its status: none of them runs again before the hub has affirmed, with that
//     number, that it did not reschedule the session.
//   - They are marked only once the hub has granted a lease again. So a mark implies a
//     renewal after the lapse, and an affirmation never crosses a failover that was
//     decided from an older one.
//   - Sessions without mode Fence, or without a guard, are not touched: the hub holds the
//     latter as with mode Hold.
package fence
