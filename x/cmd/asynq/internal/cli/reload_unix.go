//go:build unix

package cli

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// reloadSignals passes SIGHUP on until stop is called. Several that come while one is served count as one.
func reloadSignals() (reload <-chan struct{}, stop func()) {
	signals, asked, done := make(chan os.Signal, 1), make(chan struct{}), make(chan struct{})
	signal.Notify(signals, syscall.SIGHUP)
	var passing sync.WaitGroup
	passing.Go(func() {
		for {
			select {
			case <-signals:
			case <-done:
				return
			}
			select {
			case asked <- struct{}{}:
			case <-done:
				return
			}
		}
	})
	return asked, func() {
		signal.Stop(signals)
		close(done)
		passing.Wait()
	}
}
