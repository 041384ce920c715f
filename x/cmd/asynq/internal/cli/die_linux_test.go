package cli

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the kernel kill the process when the tests die, however they do.
func dieWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
