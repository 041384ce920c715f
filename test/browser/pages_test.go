package browser_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/asynq-go/asynq"
)

// q returns a path with parameters: pairs of names and values.
func q(path string, pairs ...string) string {
	values := url.Values{}
	for n := 0; n < len(pairs); n += 2 {
		values.Set(pairs[n], pairs[n+1])
	}
	return path + "?" + values.Encode()
}

// pages returns all pages, with a text that each must contain.
func pages(ids tasks) map[string]string {
	all := map[string]string{
		"/":                                    "Overview",
		"/queues":                              "default",
		q("/queue", "queue", "default"):        "default",
		"/search":                              "Search",
		q("/search", "filter", "type:email:*"): "email:welcome",
		"/errors":                              "smtp: 421",
		"/types":                               "email:welcome",
		q("/type", "type", "email:welcome"):    "email:welcome",
		"/groups":                              "users",
		"/servers":                             "block",
		"/schedulers":                          "report:monthly",
		"/redis":                               "Redis",
		"/operations":                          "perations",
		q("/enqueue", "queue", "default"):      "Enqueue",
		"/settings":                            "Settings",
		"/audit":                               "Audit log",
		q("/queue", "queue", hostile):          "onerror",
		q("/tasks", "queue", hostile, "state", "pending"):                       "onerror",
		q("/tasks", "queue", hostile, "state", "scheduled"):                     "onerror",
		q("/tasks", "queue", hostile, "state", "aggregating", "group", hostile): "onerror",
		q("/task", "queue", hostile, "id", hostile):                             "onerror",
		q("/task", "queue", hostile, "id", hostile, "as", "hex"):                "onerror",
		q("/task", "queue", hostile, "id", hostile, "as", "text"):               "onerror",
		q("/type", "type", hostile):                                             "onerror",
		q("/groups", "queue", hostile):                                          "onerror",
		q("/enqueue", "queue", hostile, "type", hostile):                        "Enqueue",
		q("/edit", "queue", "default", "id", ids[asynq.TaskStateScheduled]):     "amount",
		q("/search", "filter", `payload:"onerror" -state:active`):               "onerror",
	}
	for state, id := range ids {
		all[q("/tasks", "queue", "default", "state", state.String())] = id
		all[q("/task", "queue", "default", "id", id)] = id
	}
	return all
}

// contains returns the expression that reports whether a page has a text, possibly in a field.
func contains(text string) string {
	return `(document.getElementById("main").innerText.includes(` + quote(text) + `) || [...document.querySelectorAll("main textarea, main input, main select")].some((e) => e.value.includes(` + quote(text) + `)))`
}

// Each page has its content, in both themes and at both widths, without serious findings of axe,
// without overflow on phones, and without injected scripts.
func TestPages(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ids := s.seed(t)
	for path, says := range pages(ids) {
		t.Run(strings.SplitN(path, "?", 2)[0], func(t *testing.T) {
			t.Parallel()
			b := open(t, s.url)
			b.visit(path)
			b.until(contains(says))
			if title := eval[string](b, `document.title`); title == "owned" || !strings.HasSuffix(title, "· asynq") {
				t.Errorf("the title is %q", title)
			}
			if n := eval[int](b, `document.querySelectorAll("main img, main script").length`); n > 0 {
				t.Errorf("%d elements of a task's making", n)
			}
			if n := eval[int](b, `document.querySelectorAll("main h1").length`); n != 1 {
				t.Errorf("%d headings of the first level", n)
			}
			b.accessible("wide and light")
			b.dark(true)
			b.do(phone)
			b.narrow()
			b.accessible("narrow and dark")
		})
	}
}
