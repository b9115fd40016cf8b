// Package specs runs a suite's specs: all of them, or with `go test -short` those that are
// labeled Smoke. `make test` is the short run and `make test-all` the whole one.
package specs
