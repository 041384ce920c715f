//go:build unix

package asynq

import (
	"os"
	"os/signal"
	"syscall"
)

// waitForSignals blocks until the process is asked to end. TSTP stops the server from taking new tasks.
func (srv *Server) waitForSignals() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGTSTP)
	defer signal.Stop(signals)
	for sig := range signals {
		if sig != syscall.SIGTSTP {
			return
		}
		srv.Stop()
	}
}
