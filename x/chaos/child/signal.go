//go:build unix

// Package child is about the processes that a run starts.
package child

import "syscall"

// Signal sends a signal to a process of its own group and to its children.
func Signal(pid int, sig syscall.Signal) error { return syscall.Kill(-pid, sig) }
