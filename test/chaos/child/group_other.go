//go:build unix && !linux

package child

import (
	"os/exec"
	"syscall"
)

// OwnGroup makes a process start in its own group, so that an interrupt on the terminal reaches
// only the harness, and a signal reaches its children. Only on Linux is it killed when the harness
// crashes.
func OwnGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
