package proctest

import (
	"os/exec"
	"syscall"
)

// DieWithParent has the kernel kill a process that is to be started when this one dies, however it does. Only Linux offers it:
// elsewhere a test that is killed leaves its processes behind.
func DieWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
