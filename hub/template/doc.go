// Package template keeps the revisions of templates that sessions are made of, and
// writes each template's status.
//
// Its place in the walk of a session: agents evaluate the template revisions that this
// package sets, so that placement knows where each can run.
//
// Invariants:
//   - The set that agents get is always whole: each template as it stands, and every
//     earlier revision that is kept for sessions.
//   - A template stays while sessions are made of it, and a revision until nothing has
//     referred to it for a while.
package template
