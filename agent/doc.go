// Package agent composes a member's agent: a manager with the local
// reconciler (agent/session), the capacity watcher (agent/capacity), the store
// of the hub's orders (agent/assignment), the hub's lease (agent/fence) and the endpoint of
// the guards beside desktops (agent/guard), the administrator's settings
// (agent/restriction), the link to the hub (agent/link), the agent's certificate
// (agent/identity), slots that are kept free (agent/buffer) and the deletion of unused homes
// (agent/retention).
//
// The packages declare the small interfaces that they need, and this one connects them.
// Only link and identity connect to the hub, and nothing else waits for it: while the hub
// is unreachable the member's sessions go on.
package agent
