// Package activity asks desktops whether they are used.
//
// A desktop whose template names an activity path answers GET on its port with
// 200 and a JSON object such as
//
//	{"idleSeconds": 12.5}
//
// the time since its user last did something, zero or more. Anything else, and
// no answer within two seconds, is an unknown: it never ends a session.
//
// It is beside a session's walk: agent/session says which desktops there are to
// ask, reads the last answers, and decides. The package knows when to ask:
// hardly ever, since a desktop that was used just now can't be idle, or near its
// idle timeout, for minutes. A thousand sessions cost less than four questions a
// second while they are used.
//
// The files: desktop is one desktop's answers and when the next question is due
// (pure), asker keeps all of them and asks, question is the HTTP of it.
//
// Invariants:
//   - No question keeps a reconcile waiting, and a slow desktop no other: there
//     are bounds on how many are asked at once and how long each may take.
//   - What is kept is O(desktops that are watched), and is the newest answer of
//     each: nothing queues up.
//   - Only the address that a Pod of ours has is ever asked, and where it
//     redirects to is not.
package activity
