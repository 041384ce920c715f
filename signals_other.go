//go:build !unix

package asynq

import (
	"os"
	"os/signal"
	"syscall"
)

// waitForSignals blocks until the process is asked to end.
func (srv *Server) waitForSignals() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	defer signal.Stop(signals)
	<-signals
}
