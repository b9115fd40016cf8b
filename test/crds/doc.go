// Package crds tests bin/crdcompat and tools/stored.sh, with which `make verify` finds
// changes of CRDs that break stored objects, on small CRDs of its own.
package crds
