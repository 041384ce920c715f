package browser_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/asynq-go/asynq"
)

// Changes appear without user actions.
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
		t.Error("the page was replaced instead of updated")
	}
}

// A stream that is refused, for example by a proxy while the server restarts, is requested again:
// browsers do not retry after an error response.
func TestRefusedStreamIsRetried(t *testing.T) {
	t.Parallel()
	inner := newSite(t)
	target, err := url.Parse(inner.url)
	if err != nil {
		t.Fatal(err)
	}
	var away atomic.Bool
	away.Store(true)
	forward := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
	}}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/events" && away.Load() {
			http.Error(w, "it starts", http.StatusServiceUnavailable)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		proxy.CloseClientConnections()
		proxy.Close()
	})
	b := open(t, proxy.URL, "503")
	b.visit("/")
	b.until(`document.getElementById("live").innerText.includes("Connecting")`)
	away.Store(false)
	b.until(`document.getElementById("live").innerText === "Live"`)
}

// Keys open the pages, the button pauses updates, and selected tasks pause them as well.
func TestKeysAndPause(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := s.add(t, "a", "", asynq.ProcessIn(time.Hour))
	s.knows(t, "default")
	b := open(t, s.url)
	b.visit("/")
	b.until(`!document.getElementById("hold").hidden`) // the scripts have started
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
	b.until(`document.getElementById("live").innerText === "Paused"`)
	b.until(rows + ` === 1 && document.querySelector("input[name=id]").checked`)
	b.click(`input[name=id][value="`+id+`"]`, "")
	b.until(rows + ` === 2`)
	b.click("#hold", "")
	b.until(`document.getElementById("live").innerText === "Paused" && document.getElementById("hold").getAttribute("aria-pressed") === "true"`)
	s.add(t, "a", "", asynq.ProcessIn(3*time.Hour))
	b.do(chromedp.Reload())
	b.until(rows + ` === 3 && document.getElementById("live").innerText === "Paused"`) // still paused after a reload
	s.add(t, "a", "", asynq.ProcessIn(4*time.Hour))
	b.click("#hold", "")
	b.until(rows + ` === 4`)
}
