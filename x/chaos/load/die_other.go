//go:build !linux

package main

import "os/exec"

// dieWithParent does nothing: only Linux offers it. Elsewhere a killed run leaves its redis-server behind.
func dieWithParent(*exec.Cmd) {}
