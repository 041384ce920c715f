package browser_test

import (
	"testing"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
)

// An outage of Redis is shown with the last known state, and the page recovers by itself.
func TestRedisOutage(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	if _, err := s.client.Enqueue(asynq.NewTask("a", nil)); err != nil {
		t.Fatal(err)
	}
	b := open(t, s.url, "status of 5")
	b.visit("/")
	b.until(`document.querySelector("table").innerText.includes("default")`)
	s.mini.Close()
	b.until(`document.getElementById("live").innerText.includes("Redis is unreachable")`)
	b.until(`document.getElementById("main").innerText.includes("edis") && document.querySelector("table").innerText.includes("default")`)
	// The figures are from before the outage: they are gray, with their age in the status.
	b.until(`document.querySelector("main[data-stale]") && getComputedStyle(document.querySelector(".scroll")).filter === "grayscale(1)"`)
	b.until(`/data from \d+s ago/.test(document.getElementById("live").innerText) && document.getElementById("main").innerText.includes("figures below are from")`)
	b.accessible("overview without a Redis")
	proctest.Until(t, "the port to be free", s.mini.Restart) // another process may have taken it
	if _, err := s.client.Enqueue(asynq.NewTask("a", nil), asynq.Queue("after")); err != nil {
		t.Fatal(err)
	}
	b.until(`document.getElementById("live").innerText.includes("Live")`)
	b.until(`document.querySelector("table").innerText.includes("after")`)
	b.until(`!document.querySelector("main[data-stale]")`)
}
