//go:build !linux

package redistest

import "os/exec"

// dieWithParent does nothing: only Linux offers it. Elsewhere a server outlives a test process that crashes.
func dieWithParent(*exec.Cmd) {}
