//go:build unix

package site

import "syscall"

// signalGroup sends a signal to a process and to its children. The group has the process's id.
func signalGroup(pid int, sig syscall.Signal) error { return syscall.Kill(-pid, sig) }
