// Package fence keeps the hub's leave to run fenced desktops: the lease that
// RenewLease grants. It is what makes mode Fence hold: a member that has had no
// word from the hub for as long as its lease runs no fenced desktop, and so the
// hub may place them anew a while later.
//
// lease.go is pure, the Keeper around it does the I/O. agent/link tells it of
// renewals, agent/session asks whether a fenced desktop may run, agent/guard
// tells the guards beside the desktops.
//
// Invariants:
//   - A lease counts from when its renewal was sent, never from when it was
//     answered, by CLOCK_BOOTTIME or the wall's clock less a skew, whichever shows that
//     more time has passed: neither a suspended machine nor one that its hypervisor
//     pauses lengthens it, nor does anyone who sets a clock back. To set the wall's
//     clock forward by more than the skew ends it.
//   - What remains: a machine that was paused runs on until its wall's clock is right
//     again, and then until the kubelet has asked its guards (15 s, and the grace
//     period). A clock that is slewed rather than stepped after a pause ends what the
//     agent knows of, and not what a guard does that can't reach the agent. A pause
//     shorter than the skew does not count.
//   - It is kept in the member, so that a new process of the agent goes on with
//     what is left. After another boot, or on another node, that is reckoned by
//     the wall's clock less what clocks may differ by.
//   - When a lease is over, that is a lapse. Before another one counts, the lapse
//     has a number that is durable, and every assignment that the hub may hold
//     for guarded bears it in its status: none of them runs again before the hub
//     has said, with that number, that it did not place the session anew.
//   - They are marked only once the hub has granted a lease again. So whoever
//     reads a mark knows of a renewal that came after the lapse, and an
//     affirmation never crosses a failover that was decided from an older one.
//   - What is not fenced, or has no guard, is left alone: the hub holds it as with
//     mode Hold.
package fence
