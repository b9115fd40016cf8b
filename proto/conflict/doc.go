// Package conflict retries writes that conflict with others'.
//
// It is client-go's retry, whose functions return nil if the function that they call fails with an error of a
// context or a timeout: wait.Interrupted matches those too, and the error before is returned instead. A write that
// timed out would count as done.
package conflict
