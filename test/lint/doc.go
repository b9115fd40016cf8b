// Package lint holds the rules of the house that no linter offers: pure code
// starts no goroutine, packages are named for what they hold and document it in a
// doc.go, files stay short enough to read, the links of pages resolve.
package lint
