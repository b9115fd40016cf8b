// Package pages requests pages of the console as a browser without scripts does, with its cookies: what tests need
// that no real browser is started for. test/console has a real one.
package pages
