// Package e2e proves in kind clusters what simulated nodes cannot: that the images
// run where Pod Security is restricted, that kubelets start and stop desktops as the
// hub shows, and that homes, upgrades and failovers are what docs/ promises.
//
// It is a module of its own, so that kind's dependencies stay out of the product's.
// `make kind-test` runs it; without the fleet of `make kind-up` it is skipped.
//
// # Other suites
//
// `make kind-up` loads the images that E2E_IMAGES names into the members' nodes. A spec of this
// package with the label e2e runs with the others; artifacts belong in dist/e2e.
package e2e
