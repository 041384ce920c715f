package proctest

import (
	"errors"
	"net"
	"testing"
	"time"
)

const (
	// patience is how long a test waits for what must come, on a machine that has much else to do.
	patience = time.Minute
	// lookEvery is how often it looks.
	lookEvery = 10 * time.Millisecond
)

// Eventually looks again and again until it is so: for what other processes, or Redis, give no signal of. After a minute the test fails.
func Eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	Until(t, what, func() error {
		if !so() {
			return errors.New("it is not so")
		}
		return nil
	})
}

// Until tries again and again until there is no error. After a minute the test fails with the last one.
func Until(t testing.TB, what string, try func() error) {
	t.Helper()
	late, tick := time.NewTimer(patience), time.NewTicker(lookEvery)
	defer late.Stop()
	defer tick.Stop()
	for err := try(); err != nil; err = try() {
		select {
		case <-tick.C:
		case <-late.C:
			t.Fatalf("waited in vain for: %s: %v", what, err)
		}
	}
}

// Listens waits until somebody takes connections at an address.
func Listens(t testing.TB, addr string) {
	t.Helper()
	Until(t, addr+" takes connections", func() error {
		conn, err := net.DialTimeout("tcp", addr, time.Second)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}
