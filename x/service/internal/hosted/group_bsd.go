//go:build unix && !linux

package hosted

import (
	"os/exec"
	"syscall"
)

// dieWithParent is a no-op: only Linux supports it.
func dieWithParent(*syscall.SysProcAttr) {}

// reap waits until a program has ended, then calls cleanUp. The PID may be reused in between.
func reap(cmd *exec.Cmd, cleanUp func()) error {
	defer cleanUp()
	return cmd.Wait()
}

// closeInheritedFiles is a no-op: only Linux supports it.
func closeInheritedFiles() {}
