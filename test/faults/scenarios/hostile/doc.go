// Package hostile has the scenarios with peers that violate the protocol: agents that send false
// reports, agents that read nothing, and floods of callers without a certificate.
package hostile
