// Package lint checks rules of this project that no linter offers: pure code starts no
// goroutine, packages are named for what they contain and document it in a doc.go, files stay
// short enough to read, the links of pages resolve.
package lint
