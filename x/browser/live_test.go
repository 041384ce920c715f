package browser_test

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp"

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

// Keys lead through the pages, a page is held by a button, and one in which tasks are picked stays as it is.
func TestKeysAndHold(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := s.add(t, "a", "", asynq.ProcessIn(time.Hour))
	s.knows(t, "default")
	b := open(t, s.url)
	b.visit("/")
	b.until(`!document.getElementById("hold").hidden`) // scripts are at work
	b.keys("?")
	b.until(`document.getElementById("keys").open`)
	b.accessible("keys")
	b.click("#keys button", "Close")
	b.until(`!document.getElementById("keys").open`)
	b.keys("gq")
	b.until(`location.pathname === "/queues" && !document.getElementById("hold").hidden`)
	b.keys("/")
	b.until(`document.activeElement.matches(".find input")`)

	b.visit(q("/tasks", "queue", "default", "state", "scheduled"))
	b.until(`!document.getElementById("hold").hidden`)
	rows := `document.querySelectorAll("main tbody tr").length`
	b.click(`input[name=id][value="`+id+`"]`, "")
	s.add(t, "a", "", asynq.ProcessIn(2*time.Hour))
	b.until(`document.getElementById("live").innerText === "Held"`)
	b.until(rows + ` === 1 && document.querySelector("input[name=id]").checked`)
	b.click(`input[name=id][value="`+id+`"]`, "")
	b.until(rows + ` === 2`)
	b.click("#hold", "")
	b.until(`document.getElementById("live").innerText === "Held" && document.getElementById("hold").getAttribute("aria-pressed") === "true"`)
	s.add(t, "a", "", asynq.ProcessIn(3*time.Hour))
	b.do(chromedp.Reload())
	b.until(rows + ` === 3 && document.getElementById("live").innerText === "Held"`) // it is held after a reload, too
	s.add(t, "a", "", asynq.ProcessIn(4*time.Hour))
	b.click("#hold", "")
	b.until(rows + ` === 4`)
}
