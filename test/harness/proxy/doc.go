// Package proxy simulates the network between a hub and an agent: a TCP proxy that a test can
// cut, slow down and restore, in this process or in another one.
//
// # Invariants
//
//   - A blackhole delays bytes and loses none: they arrive once the link is restored, as
//     with TCP.
//   - A proxy is independent of the fleet and of the bytes that it carries.
package proxy
