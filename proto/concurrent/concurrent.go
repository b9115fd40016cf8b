package concurrent

import (
	"fmt"
	"runtime/debug"
)

// Begin calls f in a goroutine, and returns a function that waits for its end and returns its
// error; it must be called once. A panic is an error, as controller-runtime makes one of a
// panic in the goroutine of a reconcile.
func Begin(f func() error) (wait func() error) {
	done := make(chan error, 1)
	go func() {
		err := fmt.Errorf("the goroutine was ended")
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
			}
			done <- err
		}()
		err = f()
	}()
	return func() error { return <-done }
}
