//go:build unix && !linux

package hosted

import (
	"os/exec"
	"syscall"
)

// dieWithParent does nothing: the kernel has nothing like it.
func dieWithParent(*syscall.SysProcAttr) {}

// reap waits until a program has ended, and calls cleanUp then. For a moment its number is free.
func reap(cmd *exec.Cmd, cleanUp func()) error {
	defer cleanUp()
	return cmd.Wait()
}

// shutFiles does nothing: there is no call for it.
func shutFiles() {}
