package worker

import (
	"testing"
	"time"
)

func TestRedisClock(t *testing.T) {
	var c redisClock
	now := time.Now()
	if got := c.in(time.Hour, now); got != 0 {
		t.Errorf("an unknown clock returns %d", got)
	}
	c.set(5000, now)
	if got := c.in(0, now); got != 5000 {
		t.Errorf("now: %d, want 5000", got)
	}
	if got := c.in(10*time.Second, now.Add(1500*time.Millisecond)); got != 16500 {
		t.Errorf("in 10s: %d, want 16500", got)
	}
	c.set(100, now.Add(time.Minute)) // perhaps of another Redis
	if got := c.in(time.Second, now.Add(time.Minute)); got != 1100 {
		t.Errorf("in 1s: %d, want 1100", got)
	}
}

func TestUptime(t *testing.T) {
	if a, b := uptime(), uptime(); a <= 0 || b < a {
		t.Errorf("uptime changed from %d to %d", a, b)
	}
	synctestRun(t, func(t *testing.T) {
		start := uptime()
		time.Sleep(time.Minute)
		if got := since(start); got != time.Minute {
			t.Errorf("%v passed", got)
		}
		started = time.Now()
		if got := uptime(); got == 0 {
			t.Error("uptime is 0, which means never")
		}
	})
}
