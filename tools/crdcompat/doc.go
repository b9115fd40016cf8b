// Command crdcompat fails if CRDs have changed since their release in a way that breaks
// stored objects, and prints each break.
//
//	crdcompat RELEASED CURRENT ACKNOWLEDGED
//
// RELEASED and CURRENT are directories of CRDs, one per file; ACKNOWLEDGED is a YAML file of
// intended breaks. It extends sigs.k8s.io/crdify by further checks (checks.go): a change that
// no check handles counts as a break.
package main
