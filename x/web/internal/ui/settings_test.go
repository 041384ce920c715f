package ui

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/access"
	"github.com/asynq-go/asynq/x/web/internal/poll"
)

func TestSettings(t *testing.T) {
	s := newSite(t)
	s.now = today
	s.poller.snapshot = &poll.Snapshot{Entries: []*asynq.SchedulerEntry{{ID: "e", Spec: "@daily", Next: s.now.Add(time.Hour)}}}
	page := s.get("/settings")
	checked := func(a *answer) string {
		var all []string
		for _, n := range a.all("input") {
			for _, at := range n.Attr {
				if at.Key == "checked" {
					all = append(all, attr(n, "name")+"="+attr(n, "value"))
				}
			}
		}
		return strings.Join(all, " ")
	}
	preset := "theme= times=relative pace=0 size=50 density=comfortable payload=auto"
	if got := checked(page); got != preset {
		t.Errorf("at first %q, want %q", got, preset)
	}

	a := s.post("/settings", "do", "keep", "theme", "dark", "times", "utc", "pace", "15", "size", "200", "density", "compact", "payload", "hex")
	if a.status != http.StatusSeeOther || a.header.Get("Location") != root+"/settings" {
		t.Fatalf("status %d, to %q", a.status, a.header.Get("Location"))
	}
	for _, c := range s.cookies {
		if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != root+"/" {
			t.Errorf("cookie %v is not kept for the pages alone", c)
		}
	}
	page = s.get("/settings")
	if got, want := checked(page), "theme=dark times=utc pace=15 size=200 density=compact payload=hex"; got != want {
		t.Errorf("kept %q, want %q", got, want)
	}
	if !strings.Contains(page.text("#said"), "saved") {
		t.Errorf("it says %q", page.text("#said"))
	}
	page = s.get("/schedulers")
	top, body := page.all("html")[0], page.all("body")[0]
	if attr(top, "data-theme") != "dark" || attr(top, "data-times") != "utc" || attr(body, "data-pace") != "15" || !strings.Contains(page.body, "data-compact") {
		t.Errorf("the page is not as wanted: %v %v", top.Attr, body.Attr)
	}
	if got := page.text("tbody"); !strings.Contains(got, "2026-11-21 13:30:00 UTC") {
		t.Errorf("times are not exact: %s", got)
	}

	// Invalid values become the defaults.
	s.post("/settings", "theme", `"><script>`, "times", "x", "pace", "0.001", "size", "1000000", "density", "none", "payload", "<b>")
	page = s.get("/settings")
	if got := checked(page); got != preset {
		t.Errorf("of nonsense %q is kept", got)
	}
	for _, value := range []string{"%", "size=-1&times=%00", strings.Repeat("x", 5000)} {
		r := request("/settings")
		r.AddCookie(&http.Cookie{Name: settingsCookie, Value: value})
		r.AddCookie(&http.Cookie{Name: themeCookie, Value: value})
		got := settingsOf(r)
		if got != readSettings(nil) || theme(r) != "" {
			t.Errorf("a cookie %.20q is read as %+v", value, got)
		}
	}

	s.post("/settings", "times", "utc")
	s.post("/settings", "do", "forget", "times", "utc")
	if got := checked(s.get("/settings")); got != preset {
		t.Errorf("after they are forgotten: %q", got)
	}
}

func TestSettingsTellWhoOneIs(t *testing.T) {
	s := newSite(t)
	guard, err := access.New(access.Config{Anonymous: access.Viewer})
	if err != nil {
		t.Fatal(err)
	}
	var page *answer
	around := guard.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { page = s.send(r) }))
	r := request("/settings")
	around.ServeHTTP(httptest.NewRecorder(), r.WithContext(access.WithUser(r.Context(), access.User{Name: "<b>ada</b>", Role: access.Operator})))
	if got := page.text("main"); !strings.Contains(got, "Name <b>ada</b> Role operator") || !strings.Contains(got, "Root path "+root) {
		t.Errorf("the page says %s", got)
	}
	s.ui.ReadOnly = true
	if got := s.get("/settings").text("main"); !strings.Contains(got, "read-only") {
		t.Errorf("read-only: %s", got)
	}
}

// The link of a message, which is stored in a cookie, cannot lead to another site.
func TestFlashLinkStaysOnSite(t *testing.T) {
	s := newSite(t)
	for text, want := range map[string]string{
		`{"Text":"a","Link":"/task?id=%3Cb%3E","LinkText":"b"}`:    root + "/task?id=%3Cb%3E",
		`{"Text":"a","Link":"//example.com","LinkText":"b"}`:       "",
		`{"Text":"a","Link":"https://example.com","LinkText":"b"}`: "",
		`{"Text":"a","Link":"javascript:x","LinkText":"b"}`:        "",
		`{"Text":"a","Link":"/\\\\example.com","LinkText":"b"}`:    "",
		`{"Text":""}`: "",
		`nonsense`:    "",
	} {
		s.cookies[flashCookie] = &http.Cookie{Name: flashCookie, Value: base64.RawURLEncoding.EncodeToString([]byte(text))}
		page := s.get("/settings")
		if got := page.text("#said"); got != "" && (strings.HasSuffix(got, " b")) != (want != "") {
			t.Errorf("of %s the page says %q", text, got)
		}
		if links := page.all("#said"); want != "" && attr(within(links[0], "a")[0], "href") != want {
			t.Errorf("of %s the page does not lead to %s", text, want)
		}
	}
}

// The list of keyboard shortcuts matches the menu.
func TestKeys(t *testing.T) {
	s := newSite(t)
	page := s.get("/settings")
	told := page.text("#keys")
	seen := make(map[string]string)
	for _, a := range within(page.all(".side")[0], "a") {
		key := attr(a, "data-key")
		if other := seen[key]; key == "" || other != "" || !strings.Contains(told, "g "+key+" ") {
			t.Errorf("the key of %s is %q, which %q has, or the list does not tell", textOf(a), key, other)
		}
		seen[key] = textOf(a)
	}
}
