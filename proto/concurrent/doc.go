// Package concurrent runs a part of a reconcile in a goroutine.
package concurrent
