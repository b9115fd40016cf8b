// Package identity is the hub's certificate authority: it enrolls agents, rotates
// their certificates, issues the hub's own, and rotates its CA (link.Authority).
// What is decided without clock and I/O is in hub/identity/pki and record.go.
//
// It has no state but the API server's: the CA is a Secret of the hub's
// namespace, a join token is another, and which certificates a member may use
// stands in its MemberCluster's status. Only the leader uses it.
//
// What must hold:
//   - A token serves one public key, and that is durable before anything is
//     issued for it.
//   - A certificate's serial number is durable before the certificate is sent.
//   - A serial number that was not used yet makes none before it invalid; once it
//     was used, all before it are.
//   - A CA that can't be read is never replaced by another.
//   - Nothing secret is logged, or is in an error.
package identity
