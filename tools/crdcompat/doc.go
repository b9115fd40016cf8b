// Command crdcompat fails, naming each, if CRDs have changed since they were
// released in a way that breaks stored objects.
//
//	crdcompat RELEASED CURRENT ACKNOWLEDGED
//
// RELEASED and CURRENT are directories of CRDs, one a file; ACKNOWLEDGED is a YAML
// file of the breaks that are meant. It is sigs.k8s.io/crdify with checks of its own
// (checks.go): what neither understands counts as a break.
package main
