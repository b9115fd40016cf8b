// Package scheduling decides which of the sessions that wait for capacity is placed next,
// and where: one loop pops the session whose turn it is, decides, and reserves the
// capacity. Its controller writes the decision, many at a time.
//
// A session's controller calls Decide with what the session asks for. Until there is an
// answer the session is queued, by the order of package queue, and the controller does
// nothing with it; the answer enqueues the session again, and Decide returns it. Done says
// what became of it. No more than maxUnwritten answers are ahead of their writes: whoever
// comes meanwhile with a higher priority is not behind them.
//
// A session that no member takes is pending. Pending sessions that ask for the same are one
// class. What may help (capacity, a member, a policy's cap) is looked up once for each
// class, and as many of its sessions as there is capacity for are queued again, in their
// order. So an event costs as much as there are classes, however many sessions are pending;
// and a session that comes when capacity has just become free does not take it from those
// of its class that come first.
//
// Files: request.go (what is asked and answered), scheduler.go (the calls of the
// controller), loop.go (the loop and its decisions), pending.go (classes), events.go (what
// queues pending sessions again), metrics.go.
package scheduling
