package browser_test

import (
	"testing"

	"github.com/asynq-go/asynq"
)

func TestOverview(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	if _, err := s.client.Enqueue(asynq.NewTask("email:welcome", []byte(`{"user_id":1}`))); err != nil {
		t.Fatal(err)
	}
	b := open(t, s.url)
	b.visit("/")
	b.until(`document.querySelector("table").innerText.includes("default")`)
	b.accessible("overview")
	b.dark(true)
	b.accessible("overview, dark")

	// What happens is seen without anything being done.
	if _, err := s.client.Enqueue(asynq.NewTask("email:welcome", nil), asynq.Queue("second")); err != nil {
		t.Fatal(err)
	}
	b.until(`document.querySelector("table").innerText.includes("second")`)
}
