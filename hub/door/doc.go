// Package door sends members what their doors need: the console's origin, and the public keys that passes are verified
// with, which the console keeps (hub/console/keys).
package door
