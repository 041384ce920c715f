package proctest

import (
	"errors"
	"net"
	"testing"
	"time"
)

const (
	// timeout is the limit of Eventually, Until and Listens. It is long for busy machines.
	timeout = time.Minute
	// pollInterval is the time between two checks.
	pollInterval = 10 * time.Millisecond
)

// Eventually waits until cond returns true, for conditions without a signal, for example those of
// other processes. The test fails after a minute.
func Eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	Until(t, what, func() error {
		if !cond() {
			return errors.New("condition is false")
		}
		return nil
	})
}

// Until calls try until it returns no error. After a minute, the test fails with the last error.
func Until(t testing.TB, what string, try func() error) {
	t.Helper()
	late, tick := time.NewTimer(timeout), time.NewTicker(pollInterval)
	defer late.Stop()
	defer tick.Stop()
	for err := try(); err != nil; err = try() {
		select {
		case <-tick.C:
		case <-late.C:
			t.Fatalf("timeout waiting for %s: %v", what, err)
		}
	}
}

// Listens waits until a process accepts connections at an address.
func Listens(t testing.TB, addr string) {
	t.Helper()
	Until(t, addr+" accepts connections", func() error {
		conn, err := net.DialTimeout("tcp", addr, time.Second)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}
