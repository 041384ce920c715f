package worker

import "runtime/debug"

// SafeCall runs user code that is not a handler. It returns nil, or a *PanicError if fn panics.
func SafeCall(fn func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	fn()
	return nil
}

// Isolate is like SafeCall, but runs fn on a goroutine of its own, so that runtime.Goexit does not
// end that of the caller. Goexit, too, results in a *PanicError.
func Isolate(fn func()) <-chan error {
	done := make(chan error, 1)
	go func() {
		exited := true
		defer func() {
			if exited {
				done <- &PanicError{Stack: debug.Stack()}
			}
		}()
		err := SafeCall(fn)
		exited = false
		done <- err
	}()
	return done
}
