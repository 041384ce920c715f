//go:build unix

// Package process is about the processes that a run starts.
package process

import "syscall"

// Signal sends a signal to a process of its own group and to its children.
func Signal(pid int, sig syscall.Signal) error { return syscall.Kill(-pid, sig) }
