//go:build !linux

package outbox_test

import "os/exec"

// runAsUser does nothing: tests run as an unprivileged user here.
func runAsUser(*exec.Cmd, string) error { return nil }
