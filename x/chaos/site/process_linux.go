package site

import (
	"os/exec"
	"syscall"
)

// ownGroup gives the process a group of its own, so that an interrupt on the terminal is the harness's alone, and a kill reaches
// the children that rewrite an AOF. And it has the kernel kill the process when this one dies, however it does.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
