//go:build unix && !linux

package site

import (
	"os/exec"
	"syscall"
)

// ownGroup gives the process a group of its own, so that an interrupt on the terminal is the harness's alone, and a kill reaches
// the children that rewrite an AOF. Only Linux would kill it together with a harness that crashes.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
