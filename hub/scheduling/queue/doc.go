// Package queue orders the dispatch of items: by priority, then fairly between
// namespaces and, within one, between users, and then by how long they have
// waited. It is pure, without a clock or goroutine; the time is a parameter.
//
// Fair means start-time fair queueing of dispatches: namespaces with waiting items are
// dispatched in rounds, and so are the users of each. Within a round the one with the fewest
// placements, which Finish counts, is first: so they also alternate if there is capacity for
// one at a time and all are tried each time. A namespace or user that returns joins the
// current round with at least the placements of the last one served: idleness earns no
// credit. So a burst of thousands delays another user's single session by one dispatch of
// each other waiting user, two if that user has just had one; unsuccessful dispatches of
// any number delay it no more than that.
//
// No item starves. A priority is raised by one for each minute for which its next item
// has waited since its namespace was last served there, and a gap between priorities of more
// than 30 counts as 30. So lower priorities are served occasionally under any
// load, one item of each namespace at a time, and a burst of low priority that has waited
// long delays a high one no more than that.
package queue
