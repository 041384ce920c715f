//go:build !linux

package dash

import "os/exec"

func dieWithTest(*exec.Cmd) {}
