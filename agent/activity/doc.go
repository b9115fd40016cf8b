// Package activity probes desktops for user activity.
//
// A desktop whose template names an activity path answers GET on its port with
// 200 and a JSON object such as
//
//	{"idleSeconds": 12.5}
//
// the time since its user's last input, zero or more. Any other answer, and none within two
// seconds, is a failed probe, which never ends a session.
//
// agent/session chooses the desktops, reads the last results, and decides. This package
// schedules the probes. A desktop that was just used is not probed for minutes: a thousand
// sessions in use cost less than four probes a second.
//
// Invariants:
//   - No reconcile waits for a probe, and a slow desktop delays no other: concurrency
//     and duration of probes are limited.
//   - Memory is O(probed desktops): only the newest result of each is kept.
//   - Only the address of one of our Pods is ever probed, and no redirect is followed.
package activity
