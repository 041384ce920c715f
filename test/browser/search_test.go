package browser_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/asynq-go/asynq"
)

// A search continues automatically and shows its progress, can be stopped, and its URL shows the
// same results to others.
func TestSearch(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.fill(t, 2_000, asynq.Queue("a"))
	s.add(t, "needle", `{"n":1}`, asynq.Queue("b"))
	s.fill(t, 2_000, asynq.Queue("b"))
	s.add(t, "needle", `{"n":2}`, asynq.Queue("b"))

	b := open(t, s.url)
	b.visit("/search")
	b.write("main input[name=filter]", "type:needle")
	b.keys("\r")
	b.until(`location.search.includes("filter=type%3Aneedle")`)
	b.says("2 found", "searched 4,002 of 4,002 tasks", "done")
	b.until(`document.querySelectorAll("#hits tbody tr").length === 2`)
	b.accessible("results")
	path := eval[string](b, `location.pathname + location.search`)
	other := open(t, s.url)
	other.visit(path)
	other.says("2 found", "done")

	// Errors are marked in the filter.
	b.excuse("422", "400")
	b.visit(q("/search", "filter", "type:a ("))
	b.until(`document.querySelector("main input[name=filter]").getAttribute("aria-invalid") === "true" && document.querySelector("#wrong .marks").innerText.includes("^")`)
}

// With a slow Redis a search runs in parts. It is stopped, and continues on request.
func TestStoppedSearch(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.fill(t, 4_000, asynq.Queue("a"))
	// Each part takes longer than it may. The second one is held back until the test continues.
	s.mini.Server().SetPreHook(func(_ *server.Peer, command string, args ...string) bool {
		if command == "EVALSHA" && slices.Contains(args, "asynq:{a}:pending") {
			time.Sleep(time.Second)
		}
		return false
	})
	target, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	resume := make(chan struct{})
	release := sync.OnceFunc(func() { close(resume) })
	forward := httputil.NewSingleHostReverseProxy(target)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Search-Part") != "" {
			<-resume
		}
		r.Host = target.Host
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		release()
		proxy.CloseClientConnections() // ends the event streams
		proxy.Close()
	})
	b := open(t, proxy.URL)
	b.visit(q("/search", "filter", "type:needle"))
	b.click("#more [data-stop]", "Stop searching")
	release()
	b.until(`document.querySelector("#more a") && !document.getElementById("progress").innerText.includes("done")`)
	s.mini.Server().SetPreHook(nil)
	b.click("#more a", "Continue searching")
	b.says("done", "searched 4,000 of 4,000 tasks")
}
