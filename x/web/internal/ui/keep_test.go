package ui

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
)

// Names survive a form unchanged, regardless of what browsers do to field values.
func TestKeep(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "default", "a/b c", "a\nb", "a\r\nb", "a\rb", "\x00", "\xff\xfe", "%=", "%=a%20b", "100%=\n"} {
		value := keep(name)
		if value != "" && !fitsField([]byte(value)) || len(value) == len(name) && value != name {
			t.Errorf("keep(%q) is %q", name, value)
		}
		form := url.Values{"queue": {value}, "payload": {"%=a"}}
		restore(form)
		if form.Get("queue") != name || form.Get("payload") != "%=a" {
			t.Errorf("%q comes back as %q, and the payload as %q", name, form.Get("queue"), form.Get("payload"))
		}
		r := httptest.NewRequest(http.MethodGet, "/tasks?"+url.Values{"queue": {value}, "state": {"pending"}}.Encode(), http.NoBody)
		if q := restored(r).URL.Query(); q.Get("queue") != name || q.Get("state") != "pending" {
			t.Errorf("%q is asked for as %v", name, q)
		}
	}
}
