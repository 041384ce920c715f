package lifecycle

import (
	"os"
	"os/signal"
	"syscall"
)

// Signals receives the signals of a process, from Notify on.
type Signals struct {
	end   chan os.Signal
	stops chan os.Signal // of their own: signals that wait for stop to return cannot displace one that ends
	stop  func()
}

// Notify begins to receive SIGTERM and interrupts and, unless stop is nil, SIGTSTP; Windows has no
// such signal. Programs call it before they start what a signal has to end: before, a signal kills
// the process.
func Notify(stop func()) *Signals {
	s := &Signals{end: make(chan os.Signal, 1), stops: make(chan os.Signal, 1), stop: stop}
	signal.Notify(s.end, syscall.SIGTERM, os.Interrupt)
	if stop != nil && len(stopSignals) > 0 { // without a signal, Notify would pass on all
		signal.Notify(s.stops, stopSignals...)
	}
	return s
}

// Close restores what the signals did before. It may be called twice.
func (s *Signals) Close() {
	signal.Stop(s.end)
	signal.Stop(s.stops)
}

// Wait blocks until the process has received SIGTERM or an interrupt, or done is closed. SIGTSTP
// calls stop. Then it closes s, so that another signal ends a shutdown that takes too long.
func (s *Signals) Wait(done <-chan struct{}) {
	defer s.Close()
	for {
		select {
		case <-s.end:
			return
		case <-done:
			return
		case <-s.stops:
			s.stop()
		}
	}
}
