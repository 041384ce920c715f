//go:build !linux

package rate

import "os/exec"

// dieWithParent does nothing: only Linux offers it. Elsewhere a killed test leaves its redis-server behind.
func dieWithParent(*exec.Cmd) {}
