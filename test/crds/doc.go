// Package crds tests bin/crdcompat and tools/stored.sh, by which `make verify` finds the
// changes of CRDs that break stored objects, with small CRDs of its own.
package crds
