//go:build !linux

package interop

import "os/exec"

// dieWithParent does nothing: only Linux offers it.
func dieWithParent(*exec.Cmd) {}
