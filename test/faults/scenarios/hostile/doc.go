// Package hostile has the scenarios with peers that do not keep to the protocol: agents that report
// what is not so, agents that read nothing, and floods of callers without a certificate.
package hostile
