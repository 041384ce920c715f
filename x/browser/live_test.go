package browser_test

import (
	"testing"

	"github.com/asynq-go/asynq"
)

// What happens is seen without anything being done.
func TestLive(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	if _, err := s.client.Enqueue(asynq.NewTask("email:welcome", nil)); err != nil {
		t.Fatal(err)
	}
	b := open(t, s.url)
	b.visit("/")
	b.until(`document.querySelector("table").innerText.includes("default")`)
	eval[bool](b, `document.querySelector("h1").marked = true`)
	if _, err := s.client.Enqueue(asynq.NewTask("email:welcome", nil), asynq.Queue("second")); err != nil {
		t.Fatal(err)
	}
	b.until(`document.querySelector("table").innerText.includes("second")`)
	if !eval[bool](b, `document.querySelector("h1").marked === true`) {
		t.Error("the page was made anew, instead of being brought up to date")
	}
}
