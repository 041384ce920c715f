package browser_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/web"
)

// login fills in the login page, which must be open.
func (b *tab) login(name, password string) {
	b.t.Helper()
	b.write("input[name=username]", name)
	b.write("input[name=password]", password)
	b.click("form button", "Log in")
}

// listed waits until a user sees the queue "default".
func (s *site) listed(t *testing.T, name, password string) {
	t.Helper()
	proctest.Eventually(t, "the web UI to list the queue", func() bool {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/queue?queue=default", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.SetBasicAuth(name, password)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return response.Body.Close() == nil && response.StatusCode == http.StatusOK
	})
}

// A page leads to the login page and the login back to it. The session lasts until the log-out, in
// all tabs. Everything works with and without scripts.
func TestLogin(t *testing.T) {
	t.Parallel()
	for _, scripts := range []bool{true, false} {
		s := newSite(t, func(o *web.Options) {
			o.RootPath, o.Users = "/ops", []web.User{{Name: "ada", Password: "all", Role: web.Admin}}
		})
		if _, err := s.client.Enqueue(asynq.NewTask("a", nil)); err != nil {
			t.Fatal(err)
		}
		s.listed(t, "ada", "all")
		b := open(t, s.url, "401")
		if !scripts {
			b = b.withoutScripts()
		}
		b.visit("/queue?queue=default")
		b.until(`location.pathname === "/ops/login" && document.readyState === "complete"`)
		check := func(what string) {
			t.Helper()
			if scripts { // axe needs them
				b.accessible(what)
			}
		}
		check("the login page")
		b.login("ada", "wrong")
		b.until(`document.querySelector("[role=alert]").innerText.includes("Wrong user name or password")`)
		check("the login page with an error")
		b.login("ada", "all")
		b.until(`location.pathname + location.search === "/ops/queue?queue=default" && !!document.querySelector("header form[action$=logout]")`)
		if got := eval[string](b, `document.cookie`); strings.Contains(got, "login") {
			t.Errorf("scripts can read the cookie %s", got)
		}
		b.click("main button", "Pause")
		b.until(`document.querySelector("#said").innerText !== ""`)
		b.visit("/audit")
		b.says("queue.pause", "login", "ada")
		check("the audit page")
		b.click("header form[action$=logout] button", "")
		b.until(`location.pathname + location.search === "/ops/login?out"`)
		b.says("You are logged out.")
		b.visit("/")
		b.until(`location.pathname === "/ops/login" && document.readyState === "complete"`)
	}
}

// When a session ends, an open page leads to the login page, and a form keeps its input.
func TestSessionEnds(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(o *web.Options) {
		o.Users = []web.User{{Name: "ada", Password: "all", Role: web.Admin}}
	})
	b := open(t, s.url, "401")
	b.visit("/queues")
	b.login("ada", "all")
	b.until(`!document.getElementById("hold").hidden`) // the scripts run
	if err := s.ui.SetUsers([]web.User{{Name: "ada", Password: "new", Role: web.Admin}}); err != nil {
		t.Fatal(err)
	}
	b.until(`location.pathname + location.search === "/login?next=%2Fqueues"`)
	b.login("ada", "new")
	b.until(`location.pathname === "/queues" && document.readyState === "complete"`)
	b.visit("/enqueue")
	b.until(`!document.getElementById("hold").hidden`) // the scripts run
	b.write("input[name=type]", "kept")
	if err := s.ui.SetUsers([]web.User{{Name: "ada", Password: "other", Role: web.Admin}}); err != nil {
		t.Fatal(err)
	}
	b.until(`document.getElementById("live").innerText.includes("Logged out") && document.querySelector("input[name=type]").value === "kept"`)
}

func TestRoles(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(o *web.Options) {
		o.Users = []web.User{{Name: "vera", Password: "look", Role: web.Viewer}, {Name: "otto", Password: "do", Role: web.Operator}, {Name: "ada", Password: "all", Role: web.Admin}}
	})
	if _, err := s.client.Enqueue(asynq.NewTask("a", nil)); err != nil {
		t.Fatal(err)
	}
	s.listed(t, "ada", "all")
	for _, c := range []struct {
		name, password string
		buttons        string
	}{
		{"vera", "look", ""},
		{"otto", "do", "pause"},
		{"ada", "all", "pause delete"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := open(t, s.url)
			b.visit("/queue?queue=default")
			b.login(c.name, c.password)
			b.until(`location.pathname === "/queue" && document.readyState === "complete"`)
			got := eval[string](b, `[...document.querySelectorAll("main button[name=do]")].map((e) => e.value).filter((v) => v === "pause" || v === "delete").join(" ")`)
			if got != c.buttons {
				t.Errorf("the buttons are %q, want %q", got, c.buttons)
			}
			// Changes that are not offered are refused as well.
			status := eval[int](b, `(() => { const r = new XMLHttpRequest(); r.open("POST", "/queue", false);
				r.setRequestHeader("Content-Type", "application/x-www-form-urlencoded"); r.send("queue=default&do=delete&confirm=nobody"); return r.status })()`)
			want := http.StatusForbidden
			if c.name == "ada" {
				want = http.StatusUnprocessableEntity // without the confirmation
			}
			if status != want {
				t.Errorf("deleting answers %d, want %d", status, want)
			}
			b.excuse("403", "422")
		})
	}
	t.Run("nobody", func(t *testing.T) {
		t.Parallel()
		response, err := http.Get(s.url + "/queues")
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusUnauthorized {
			t.Errorf("without a login: %s", response.Status)
		}
	})
}

// Without a login, a browser on the same machine may view. The sign-in link makes it an admin, and
// leaves no token in the URL, in the history, or where a script could read it.
func TestSignInLink(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(o *web.Options) { o.Token, o.RootPath = "a-token-for-scripts", "/ops" })
	if _, err := s.client.Enqueue(asynq.NewTask("a", nil)); err != nil {
		t.Fatal(err)
	}
	s.knows(t, "default")
	buttons := `[...document.querySelectorAll("main button[name=do]")].map((e) => e.value).filter((v) => v === "pause" || v === "delete").join(" ")`
	pausing := `(() => { const r = new XMLHttpRequest(); r.open("POST", "/ops/queue", false);
		r.setRequestHeader("Content-Type", "application/x-www-form-urlencoded"); r.send("queue=default&do=pause"); return r.status + " " + r.responseText })()`
	viewer := open(t, s.url, "403")
	viewer.visit("/queue?queue=default")
	if got := eval[string](viewer, buttons); got != "" {
		t.Errorf("a viewer has the buttons %q", got)
	}
	if got := eval[string](viewer, pausing); !strings.HasPrefix(got, "403 ") || !strings.Contains(got, "sign-in link") {
		t.Errorf("a viewer pauses: %s", got)
	}
	viewer.click("header .viewing", "View only")
	viewer.until(`document.getElementById("sign-in").innerText.includes("asynq web")`)

	b := open(t, s.url, "403")
	link := strings.TrimPrefix(s.signIn(), "/ops")
	b.visit("/")
	b.visit(link)
	if got := eval[string](b, `location.pathname + location.search + document.cookie`); got != "/ops/" {
		t.Errorf("after signing in the page is at %s", got)
	}
	if eval[bool](b, `!!document.querySelector("header .viewing")`) {
		t.Error("it says View only")
	}
	b.visit("/queue?queue=default")
	if got := eval[string](b, buttons); got != "pause delete" {
		t.Errorf("after signing in the buttons are %q", got)
	}
	b.click("main button", "Pause")
	b.until(`document.querySelector("#said").innerText !== ""`)
	if !s.queue(t, "default").Paused {
		t.Error("it is not paused")
	}
	b.visit(link) // again in the signed-in browser
	if got := eval[string](b, `location.pathname + location.search`); got != "/ops/" {
		t.Errorf("the second time the page is at %s", got)
	}
	viewer.visit(link) // used
	viewer.says("Each link works once, for one browser")
	viewer.visit("/queue?queue=default")
	if got := eval[string](viewer, buttons); got != "" {
		t.Errorf("a used link gives the buttons %q", got)
	}
}

// A page of another site cannot change anything.
func TestOtherOrigins(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	if _, err := s.client.Enqueue(asynq.NewTask("a", nil)); err != nil {
		t.Fatal(err)
	}
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(`<!doctype html><main id="main"><form id="f" method="post" action="` + s.url + `/queue"><input name="queue" value="default"><input name="do" value="pause"></form></main>`))
	}))
	t.Cleanup(evil.Close)
	// Another port of the same host is another origin, and another host is another site as well.
	for _, root := range []string{evil.URL, strings.Replace(evil.URL, "127.0.0.1", "localhost", 1)} {
		b := open(t, root, "403", "CORS", "ERR_FAILED", "NotSameOrigin", "favicon.ico")
		b.visit("/")
		eval[bool](b, `fetch("`+s.url+`/queue", {method: "POST", mode: "no-cors", body: new URLSearchParams({queue: "default", do: "pause"})}).catch(() => {}).then(() => true)`)
		eval[bool](b, `fetch("`+s.url+`/api/queues/default:pause", {method: "POST", mode: "no-cors"}).catch(() => {}).then(() => true)`)
		readable := eval[bool](b, `fetch("`+s.url+`/api/queues").then((r) => r.text()).then(() => true, () => false)`)
		if readable {
			t.Errorf("%s reads the API", root)
		}
		eval[bool](b, `(setTimeout(() => document.getElementById("f").submit()), true)`)
		b.until(`document.body.innerText.includes("403") || document.title.includes("Forbidden")`)
		info, err := s.inspector.GetQueueInfo("default")
		if err != nil {
			t.Fatal(err)
		}
		if info.Paused {
			t.Fatalf("%s paused the queue", root)
		}
	}
}
