//go:build !linux

package incidents_test

import (
	"os"
	"testing"
)

// openTerminal skips the test: pseudo-terminals are opened on Linux only.
func openTerminal(t *testing.T, _, _ int) (program, user *os.File) {
	t.Helper()
	t.Skip("pseudo-terminals are opened on Linux only")
	return nil, nil
}
