package worker

import "runtime/debug"

// Contain runs user code off the path of a task's life, on a goroutine of its own: a panic or a Goexit in it ends nothing else.
// It waits for the end and returns nil or a *PanicError.
func Contain(f func()) error {
	done := make(chan error, 1)
	go func() {
		ended := false
		defer func() {
			if ended {
				done <- nil
				return
			}
			done <- &PanicError{Value: recover(), Stack: debug.Stack()}
		}()
		f()
		ended = true
	}()
	return <-done
}
