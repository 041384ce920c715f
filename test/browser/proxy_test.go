package browser_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web"
)

// Below a root path and behind a proxy that authenticates users, all pages, forms and events stay
// below that path.
func TestBehindProxy(t *testing.T) {
	t.Parallel()
	inner := newSite(t, func(o *web.Options) {
		o.RootPath = "/ops"
		o.Proxy = &web.Proxy{From: []string{"127.0.0.1"}, UserHeader: "X-Forwarded-User", Role: web.Admin}
	})
	target, err := url.Parse(inner.url)
	if err != nil {
		t.Fatal(err)
	}
	target.Path = ""
	outside := make(chan string, 100)
	forward := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.SetXForwarded()
		r.Out.Host = r.In.Host
		r.Out.Header.Set("X-Forwarded-User", "ada")
	}}
	mux := http.NewServeMux()
	mux.Handle("/ops/", forward)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/favicon.ico" { // browsers request it on their own
			outside <- r.Method + " " + r.URL.String()
		}
		http.NotFound(w, r)
	})
	proxy := httptest.NewServer(mux)
	t.Cleanup(func() {
		proxy.CloseClientConnections() // ends the event streams
		proxy.Close()
	})
	s := &site{url: proxy.URL + "/ops", client: inner.client, inspector: inner.inspector, redis: inner.redis, mini: inner.mini}
	id := s.add(t, "a", "{}", asynq.ProcessIn(time.Hour))
	s.knows(t, "default")

	b := open(t, s.url, "404", "422") // pages of missing items
	b.visit("/")
	b.until(`document.querySelector("table").innerText.includes("default")`)
	s.add(t, "a", "", asynq.Queue("second"))
	b.until(`document.querySelector("table").innerText.includes("second")`) // events pass the proxy
	b.click("main tbody th a", "default")
	b.until(`location.pathname === "/ops/queue"`)
	b.click("main button", "Pause")
	b.says("Queue paused")
	if !s.queue(t, "default").Paused {
		t.Error("it is not paused")
	}
	b.click(".look button", "")
	b.until(`document.documentElement.dataset.theme === "light" && location.pathname === "/ops/queue"`)
	b.visit(q("/task", "queue", "default", "id", id))
	b.click("main button", "Delete…")
	b.asked("Delete task")
	b.click("#ask form button", "Delete")
	b.says("Task deleted.")
	b.write(".find input", "type:a")
	b.keys("\r")
	b.says("1 found")
	b.visit("/settings")
	b.says("ada", "admin")
	for path := range pages(nil) {
		b.visit(path)
		if away := eval[[]string](b, `[...document.querySelectorAll("a[href], link[href], script[src], form[action], [hx-get], [hx-post], [data-chart], [data-events]")]
			.flatMap((e) => ["href", "src", "action", "hx-get", "hx-post", "data-chart", "data-events"].map((name) => e.getAttribute(name)))
			.filter((url) => url && !url.startsWith("/ops/") && !url.startsWith("#") && !url.startsWith("?"))`); len(away) > 0 {
			t.Errorf("%s leads to %q", path, away)
		}
	}
	select {
	case url := <-outside:
		t.Errorf("the browser requested %s outside of the root path", url)
	default:
	}
}
