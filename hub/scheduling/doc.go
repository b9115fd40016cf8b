// Package scheduling decides which of the sessions that wait for capacity is placed next,
// and where: one loop pops the next session, decides, and reserves the capacity. The
// controller of sessions writes the decisions concurrently.
//
// The controller calls Decide with a session's request. Until there is an answer the
// session is queued, in the order of package queue, and the controller does nothing
// with it; the answer enqueues the session again, and Decide returns it. Done
// reports the outcome. At most maxUnwritten answers are not written yet: a session of
// higher priority that arrives meanwhile waits for no more.
//
// A session that fits in no member is pending. Pending sessions with equal requests are
// one equivalence class. An event that may help (capacity, a member, a policy's cap) is
// evaluated once for each class, and as many of its sessions as there is capacity for are
// requeued, in their order. So the cost of an event depends on the number of classes, not
// of pending sessions; and a session that arrives when capacity has just become
// free does not take it from earlier ones of its class.
//
// Files: request.go (requests and answers), scheduler.go (the calls of the controller),
// loop.go (the loop and its decisions), pending.go (classes), events.go (what queues
// pending sessions again), metrics.go.
package scheduling
