// Package version declares the protocol versions and capabilities of the link
// between hub and agent (docs/design.md, section 5), and how the two ends agree
// on them.
package version
