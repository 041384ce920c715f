//go:build !linux

package proctest

import "os/exec"

// DieWithParent does nothing, because only Linux supports it. A killed test leaves its processes
// behind.
func DieWithParent(*exec.Cmd) {}
