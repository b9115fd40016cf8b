// Package proxy is the network between a hub and an agent, as a test breaks it: a TCP
// proxy that can be cut, slowed and restored, in this process or in another one.
//
// # Invariants
//
//   - A blackhole delays bytes and loses none: they arrive once the link is restored, as
//     with TCP.
//   - A proxy is independent of the fleet and of the bytes that it carries.
package proxy
