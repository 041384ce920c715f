// Package loops holds what runs beside the workers: one type per loop, each with a tick function for package runner. None of them
// owns a goroutine or a timer.
package loops
