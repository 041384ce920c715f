package dash

import (
	"os/exec"
	"syscall"
)

// dieWithTest has the kernel kill the process when the test's process dies, however it does.
func dieWithTest(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
