//go:build unix && !linux

package child

import (
	"os/exec"
	"syscall"
)

// OwnGroup gives a process that is to be started a group of its own, so that an interrupt on the terminal is the harness's alone, and a
// signal reaches its children. Only Linux would kill it together with a harness that crashes.
func OwnGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
