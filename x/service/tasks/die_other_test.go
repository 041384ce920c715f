//go:build !linux

package tasks_test

import "os/exec"

// dieWithParent does nothing: only Linux offers it. Elsewhere a killed test leaves its redis-server behind; its workers end with their input.
func dieWithParent(*exec.Cmd) {}
