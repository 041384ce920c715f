//go:build unix

package lifecycle

import (
	"os"
	"syscall"
)

var stopSignals = []os.Signal{syscall.SIGTSTP}
