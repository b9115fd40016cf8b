// Package apply applies manifests and objects to an API server by server-side apply, as
// its administrator, and installs CRDs.
package apply
