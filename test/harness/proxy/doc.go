// Package proxy is the network between a hub and an agent, as a test breaks it: a TCP
// proxy that can be cut, slowed and healed, in this process or in another one.
//
// # Invariants
//
//   - A blackhole delays bytes and loses none: they arrive once the link is healed, as
//     with TCP.
//   - A proxy knows nothing of the harness, the fleet or what it carries.
package proxy
