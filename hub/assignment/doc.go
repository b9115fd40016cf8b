// Package assignment makes members' assignments match the sessions' status: what a session
// asks of a member is rendered, compared with what the member reports, and assigned or
// withdrawn. It writes nothing on the hub.
//
// Invariants:
//   - A member receives only what is durable: assignments are made from the hub's cache alone.
//     Of an epoch that an earlier leader gave, the API server is asked first.
//   - A member is ordered to stop only what a session's own status says it should not
//     run. A session that the hub does not know is left alone.
//   - A session that is deleted although a member may still run it, because its finalizer
//     was removed by hand, is withdrawn by the leader whose watch reports the deletion.
//     An absence from a list is no deletion, and no later leader knows of one.
//   - The content of a Secret is in no assignment until that is sent, and in no log and no
//     event ever.
package assignment
