// Package queue is the order in which items are dispatched: by priority, then fairly
// between namespaces and, within one, between users, and then by how long they have waited.
// It is pure, with no clock and no goroutine; what time it is comes with each call.
//
// Fair means start-time fair queueing of turns: while there are some that wait,
// namespaces have their turns by rounds, and so have the users of each. In a round
// whoever was given fewest places is first, which Settle says of each turn: so
// where there is room for one at a time, and all that wait ask for it each time,
// they get it by turns too. Who comes again joins the round that goes on, and is
// taken to have been given as much as whoever got the last place: idleness earns
// no credit. A burst of thousands so delays another's single session by one turn
// of each other that waits, two where he has just had one himself; and what asks
// in vain, in whatever numbers, delays it no more than that.
//
// Nobody starves. A priority gains one for each minute for which its next in line
// has waited since its namespace was last served there, and a gap of more than
// half an hour counts as one of half an hour. So lower priorities are served now
// and then under any load, one of each namespace at a time, and a burst of low
// priority that has waited long delays a high one no more than that.
package queue
