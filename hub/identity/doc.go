// Package identity is the hub's certificate authority: it enrolls agents, rotates
// their certificates, issues the hub's own, and rotates its CA (link.Authority).
// Decisions without clock and I/O are in hub/identity/pki and record.go.
//
// All its state is in the API server: the CA and the join tokens are Secrets of the
// hub's namespace, and the serial numbers of a member's certificates are in its
// MemberCluster's status. Only the leader uses it.
//
// Invariants:
//   - A token is for one public key, which is durable before a certificate is issued
//     for it.
//   - A certificate's serial number is durable before the certificate is sent.
//   - The first use of a certificate makes all earlier ones invalid; its issue does not.
//   - A CA that can't be read is never replaced by another.
//   - No secret is logged, or is in an error.
package identity
