// Package pki decides what certificates the hub issues and how its CA is
// rotated: requests are read, templates made, and the CA's state is led from
// stage to stage. It is pure: keys, serial numbers and the time are parameters,
// and what it returns is signed and stored by hub/identity.
//
// What must hold:
//   - Of a request only the public key counts, and only if its owner signed it.
//   - No certificate outlives the CA that issued it.
//   - A CA issues only once everybody who has a certificate that is valid trusts
//     it, and is trusted until nobody has one that it issued.
package pki
