// Package pki reads certificate requests, defines the certificates that the hub issues,
// and decides the steps of a rotation of its CA. It is pure: keys, serial numbers and the
// time are parameters, and hub/identity signs and stores.
//
// Invariants:
//   - Of a request only the public key is used, and only if it signed the request.
//   - No certificate outlives the CA that issued it.
//   - A CA issues only once every agent with a valid certificate trusts it, and is trusted
//     until no agent has a valid certificate of it.
package pki
