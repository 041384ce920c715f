//go:build unix

package cli

import (
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// reloadSignals forwards SIGHUP.
func reloadSignals() (reload <-chan struct{}, stop func()) { return forward(syscall.SIGHUP) }

// linkSignals forwards SIGUSR1.
func linkSignals() (wanted <-chan struct{}, stop func()) { return forward(syscall.SIGUSR1) }

// anotherLink explains how to get another sign-in link.
func anotherLink(pid int) string { return fmt.Sprintf("For another link: kill -USR1 %d", pid) }

// forward forwards a signal until stop is called. Signals that arrive while one is pending are
// merged.
func forward(sig os.Signal) (received <-chan struct{}, stop func()) {
	signals, asked, done := make(chan os.Signal, 1), make(chan struct{}), make(chan struct{})
	signal.Notify(signals, sig)
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
