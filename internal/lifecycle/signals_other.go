//go:build !unix

package lifecycle

import "os"

var stopSignals []os.Signal
