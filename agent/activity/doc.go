// Package activity probes desktops for user activity.
//
// A desktop whose template names an activity path answers GET on its port with
// 200 and a JSON object such as
//
//	{"idleSeconds": 12.5}
//
// the time since its user last did something, zero or more. Anything else, and no answer
// within two seconds, is a failed probe: it never ends a session.
//
// agent/session chooses the desktops, reads the last results, and decides. This package
// schedules the probes: there are few, since a desktop that was used just now can't be
// idle, or near its idle timeout, for minutes. A thousand sessions cost less than four
// probes a second while they are used.
//
// Invariants:
//   - No reconcile waits for a probe, and a slow desktop delays no other: concurrency
//     and duration of probes are limited.
//   - What is kept is O(desktops that are watched), and is the newest result of each:
//     nothing queues up.
//   - Only the address of one of our Pods is ever probed, and no redirect is followed.
package activity
