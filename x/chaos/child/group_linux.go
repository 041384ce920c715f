package child

import (
	"os/exec"
	"syscall"
)

// OwnGroup gives a process that is to be started a group of its own, so that an interrupt on the terminal is the harness's alone, and a
// signal reaches its children. And it has the kernel kill the process when this one dies, however it does.
func OwnGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
