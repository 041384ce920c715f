//go:build !linux

package browser_test

import "os/exec"

// dieWithParent does nothing: only Linux offers it. Elsewhere a killed test leaves its processes behind.
func dieWithParent(*exec.Cmd) {}
