// Package queue is the order in which items are dispatched: by priority, then fairly
// between namespaces and, within one, between users, and then by how long they have
// waited. It is pure, with no clock and no goroutine; the time is a parameter.
//
// Fair means start-time fair queueing of dispatches: namespaces with waiting items are
// dispatched in rounds, and so are the users of each. Within a round the one with the fewest
// placements is first, which Finish records for each dispatch: so if there is capacity for one
// at a time, and all try to get it each time, they alternate too. A namespace or user that
// returns joins the current round, and counts as having had as much as the last one served:
// idleness earns no credit. So a burst of thousands delays another user's single session by one
// dispatch of each other user that waits, two if that user has just had one; and unsuccessful
// dispatches, in whatever numbers, delay it no more than that.
//
// No item starves. A priority is raised by one for each minute for which its next item
// has waited since its namespace was last served there, and a gap of more than half an
// hour counts as half an hour. So lower priorities are served occasionally under any
// load, one of each namespace at a time, and a burst of low priority that has waited long
// delays a high one no more than that.
package queue
