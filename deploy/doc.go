// Package deploy holds the manifests that commands apply themselves. They are
// the same files that `make deploy` and people apply.
package deploy
