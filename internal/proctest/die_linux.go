package proctest

import (
	"os/exec"
	"syscall"
)

// DieWithParent makes the kernel kill the process of cmd when this process dies for any reason. It
// must be called before the process starts. Only Linux supports it; elsewhere a killed test leaves
// its processes behind.
func DieWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
