// Package agent composes a member's agent: a manager with the local
// reconciler (agent/session), the capacity watcher (agent/capacity), the store
// of the hub's orders (agent/assignment), the keeper of the hub's lease
// (agent/fence), what the administrator allows (agent/restriction), what tells it to the guards beside desktops (agent/guard), the link to the hub (agent/link), the
// keeper of its certificate (agent/identity) and what deletes homes that nobody
// uses any more (agent/retention).
//
// The rooms know each other only by the small interfaces that they declare;
// this package joins them. Only link and identity speak to the hub, and nothing
// else waits for it: with the hub away the member's sessions go on.
package agent
