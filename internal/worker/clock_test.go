package worker

import (
	"testing"
	"time"
)

func TestRedisClock(t *testing.T) {
	var c redisClock
	now := time.Now()
	if got := c.in(time.Hour, now); got != 0 {
		t.Errorf("a clock that is not known says %d", got)
	}
	c.learn(5000, now)
	if got := c.in(0, now); got != 5000 {
		t.Errorf("it is %d, want 5000", got)
	}
	if got := c.in(10*time.Second, now.Add(1500*time.Millisecond)); got != 16500 {
		t.Errorf("in 10s it is %d, want 16500", got)
	}
	c.learn(100, now.Add(time.Minute)) // Redis may be another now
	if got := c.in(time.Second, now.Add(time.Minute)); got != 1100 {
		t.Errorf("in 1s it is %d, want 1100", got)
	}
}

func TestUptime(t *testing.T) {
	if a, b := uptime(), uptime(); a <= 0 || b < a {
		t.Errorf("uptime went from %d to %d", a, b)
	}
	bubble(t, func(t *testing.T) {
		begun := uptime()
		time.Sleep(time.Minute)
		if got := since(begun); got != time.Minute {
			t.Errorf("%v passed", got)
		}
		started = time.Now()
		if got := uptime(); got == 0 {
			t.Error("uptime is 0, which means that something did not happen")
		}
	})
}

func TestLeaseAge(t *testing.T) {
	bubble(t, func(t *testing.T) {
		time.Sleep(time.Second)
		a := &Attempt{leased: uptime()}
		time.Sleep(time.Minute)
		if got := a.leaseAge(); got != time.Minute {
			t.Errorf("the lease is %v old", got)
		}
		a.extended.Store(uptime())
		time.Sleep(time.Second)
		if got := a.leaseAge(); got != time.Second {
			t.Errorf("the lease is %v old after it was extended", got)
		}
	})
}
