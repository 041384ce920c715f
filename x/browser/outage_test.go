package browser_test

import (
	"testing"

	"github.com/asynq-go/asynq"
)

// A Redis that goes away is told, what was seen stays, and nothing need be done when it is back.
func TestRedisGoesAwayAndComesBack(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	if _, err := s.client.Enqueue(asynq.NewTask("a", nil)); err != nil {
		t.Fatal(err)
	}
	b := open(t, s.url, "status of 5")
	b.visit("/")
	b.until(`document.querySelector("table").innerText.includes("default")`)
	s.mini.Close()
	b.until(`document.getElementById("live").innerText.includes("Redis does not answer")`)
	b.until(`document.getElementById("main").innerText.includes("edis") && document.querySelector("table").innerText.includes("default")`)
	b.accessible("overview without a Redis")
	if err := s.mini.Restart(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.client.Enqueue(asynq.NewTask("a", nil), asynq.Queue("after")); err != nil {
		t.Fatal(err)
	}
	b.until(`document.getElementById("live").innerText.includes("Live")`)
	b.until(`document.querySelector("table").innerText.includes("after")`)
}
