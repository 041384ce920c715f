//go:build unix

// Package child supports the child processes of a run.
package child

import "syscall"

// Signal sends a signal to the group of a process started with OwnGroup.
func Signal(pid int, sig syscall.Signal) error { return syscall.Kill(-pid, sig) }
