// Package identity manages the agent's key and certificate: it enrolls with a join token,
// and rotates the certificate long before expiry (docs/design.md, section 8).
//
// agent/link gets the credential of each connection from Keeper, and reports which one the
// hub accepted and how a connection ended. Keeper calls Enroll and RotateCertificate on
// connections of its own. state.go and rotation.go are pure.
//
// Invariants:
//   - A key is stored before it is sent to the hub, and a certificate before it is used: a
//     call whose answer was lost is repeated with the same key, by any process.
//   - A pair is dropped only once the hub has accepted a newer one.
//   - A token is sent only to a hub with a chain of a CA whose hash was given with it;
//     afterwards only the hub's trust bundle counts.
//   - Keys never leave the member; no key or token is ever logged.
//   - Nothing in the member waits for this package: the sessions of an agent that no hub
//     accepts go on.
package identity
