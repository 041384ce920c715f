package browser_test

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/asynq-go/asynq"
)

// A search goes on by itself and tells how far it is, can be stopped, and its address shows the same to others.
func TestSearch(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.fill(t, 10_000, asynq.Queue("a"))
	s.add(t, "needle", `{"n":1}`, asynq.Queue("b"))
	s.fill(t, 10_000, asynq.Queue("b"))
	s.add(t, "needle", `{"n":2}`, asynq.Queue("b"))

	b := open(t, s.url)
	b.visit("/search")
	b.write("main input[name=filter]", "type:needle")
	b.keys("\r")
	b.until(`location.search.includes("filter=type%3Aneedle")`)
	b.says("2 found", "looked at 20,002 of 20,002", "that is all")
	b.until(`document.querySelectorAll("#hits tbody tr").length === 2`)
	b.accessible("results")
	path := eval[string](b, `location.pathname + location.search`)
	other := open(t, s.url)
	other.visit(path)
	other.says("2 found", "that is all")

	// What is wrong is told at its place.
	b.excuse("422", "400")
	b.visit(q("/search", "filter", "type:a ("))
	b.until(`document.querySelector("main input[name=filter]").getAttribute("aria-invalid") === "true" && document.querySelector("#wrong .marks").innerText.includes("^")`)

	// With a Redis that takes its time for each call it goes on in parts. It is stopped, and goes on when it is told to.
	s.mini.Server().SetPreHook(func(_ *server.Peer, command string, _ ...string) bool {
		if command == "EVALSHA" {
			time.Sleep(150 * time.Millisecond)
		}
		return false
	})
	b.visit(path)
	b.click("#more [data-stop]", "Stop searching")
	b.until(`document.querySelector("#more a") && !document.getElementById("progress").innerText.includes("that is all")`)
	s.mini.Server().SetPreHook(nil)
	b.click("#more a", "Go on searching")
	b.says("that is all")
}
