// Package template stores the template revisions that sessions are created from, and
// writes each template's status.
//
// Its part in the lifecycle of a session: agents evaluate the template revisions that this
// package sets, so that placement knows where each can run.
//
// Invariants:
//   - Agents always get the whole set: the current revision of each template, and every
//     earlier revision that is kept for sessions.
//   - A template stays while sessions use it, and a revision until nothing has referred
//     to it for a while.
package template
