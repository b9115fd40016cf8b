// Package identity keeps the agent's key and certificate: it enrolls with a
// join token, and rotates long before expiry (docs/design.md, section 8).
//
// agent/link gets the credential of each connection from Keeper, and reports which one the
// hub accepted and how a connection ended. Keeper calls Enroll and RotateCertificate of the
// hub on connections of its own.
//
// What decides is pure: state (what is stored, and what follows from an answer)
// and rotation (how old a certificate is, and when it is due).
//
// Invariants:
//   - A key is stored before it is sent to the hub, and an answer before it is
//     used: a call whose answer was lost is repeated with the same key, by any process.
//   - A pair is dropped only once the hub has accepted a newer one.
//   - A token is sent only to a hub that shows a chain of a CA whose hash was
//     given with it; afterwards only the trust bundle that the hub gave counts.
//   - Keys never leave the member; no key or token is ever logged.
//   - Nothing in the member waits for this package: an agent that no hub accepts keeps
//     its sessions.
package identity
