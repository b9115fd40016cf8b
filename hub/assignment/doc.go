// Package assignment makes members' assignments match the sessions' status: a session's
// desired state is rendered, compared with what the member reports, and assigned or
// withdrawn. It writes nothing on the hub.
//
// Invariants:
//   - A member receives only what is durable: assignments are made from the hub's cache alone.
//     An epoch of an earlier leader is checked with the API server first.
//   - A member is ordered to stop only what a session's status requires to be stopped. An
//     assignment of an unknown session is an orphan, and continues.
//   - A session that is deleted although a member may still run it, because its finalizer
//     was removed by hand, is withdrawn by the leader whose watch reports the deletion.
//   - The content of a Secret is in no assignment until that is sent, and never in a log or
//     an event.
package assignment
