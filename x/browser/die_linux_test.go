package browser_test

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the kernel kill the process when this one dies, however it does.
func dieWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
