//go:build !linux

package main

import (
	"context"
	"fmt"
)

// checkImage needs chroot.
func (d *deployment) checkImage(context.Context) error {
	return fmt.Errorf("%w: Linux is required", errMissing)
}
