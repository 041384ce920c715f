package web_test

import (
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/asynq-go/asynq/x/web"
)

// A browser logs in on the login page, sees who it is, and logs out; an admin sees both on the
// audit page. Anonymous viewers see a link to the login page.
func TestLogin(t *testing.T) {
	t.Parallel()
	users := []web.User{{Name: "ann", Password: "p", Role: web.Admin}, {Name: "bob", Password: "q", Role: web.Viewer}}
	h := web.New(web.Options{RedisConnOpt: newRedis(t), RootPath: "/ops", Logger: slog.New(slog.DiscardHandler), Users: users, Anonymous: web.Viewer})
	t.Cleanup(func() { _ = h.Close() })
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	page := func(resp *http.Response, err error) (path, text string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		doc, err := html.Parse(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := html.Render(&b, doc); err != nil {
			t.Fatal(err)
		}
		return resp.Request.URL.RequestURI(), b.String()
	}
	if _, text := page(browser.Get(server.URL + "/ops/queues")); !strings.Contains(text, `href="/ops/login">Log in</a>`) || strings.Contains(text, "Log out") || strings.Contains(text, "/ops/audit") {
		t.Errorf("an anonymous viewer sees %.3000s", text)
	}
	form := url.Values{"username": {"ann"}, "password": {"p"}, "next": {"/ops/settings"}}
	path, text := page(browser.PostForm(server.URL+"/ops/login", form))
	if path != "/ops/settings" || !strings.Contains(text, "<dd>ann</dd>") || !strings.Contains(text, `action="/ops/logout"`) || strings.Contains(text, "/ops/login") {
		t.Errorf("after the login at %s: %s", path, text)
	}
	if path, text := page(browser.PostForm(server.URL+"/ops/logout", nil)); path != "/ops/login?out" || !strings.Contains(text, "You are logged out.") {
		t.Errorf("after the log-out at %s: %s", path, text)
	}
	page(browser.PostForm(server.URL+"/ops/login", form))
	if _, text := page(browser.Get(server.URL + "/ops/audit")); strings.Count(text, ">login</td>") != 2 || strings.Count(text, ">logout</td>") != 1 {
		t.Errorf("the audit page is %s", text)
	}
	if err := h.SetUsers(users[1:]); err != nil {
		t.Fatal(err)
	}
	if _, text := page(browser.Get(server.URL + "/ops/settings")); strings.Contains(text, "<dd>ann</dd>") {
		t.Error("a removed user is logged in")
	}
	if err := h.SetUsers(nil); err == nil || !strings.HasPrefix(err.Error(), "web: ") {
		t.Errorf("error %v", err)
	}
}
