package lifecycle

import (
	"os"
	"os/signal"
	"syscall"
)

// WaitForSignal blocks until the process receives SIGTERM or an interrupt, or done is closed.
// Unless stop is nil, SIGTSTP calls it; Windows has no such signal.
func WaitForSignal(stop func(), done <-chan struct{}) {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, os.Interrupt)
	defer signal.Stop(end)
	// A channel of their own: signals that wait for stop to return cannot displace one that ends.
	stops := make(chan os.Signal, 1)
	if stop != nil && len(stopSignals) > 0 { // without a signal, Notify would pass on all
		signal.Notify(stops, stopSignals...)
		defer signal.Stop(stops)
	}
	for {
		select {
		case <-end:
			return
		case <-done:
			return
		case <-stops:
			stop()
		}
	}
}
