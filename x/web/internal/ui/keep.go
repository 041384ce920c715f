package ui

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// keptMark begins a name in a form that a browser would not send back as it is.
const keptMark = "%="

// keep writes a name as the value of a field. A browser ends each line of a value with \r\n, and changes what is no text; names may hold
// both.
func keep(name any) string {
	s := fmt.Sprint(name)
	if fitsField([]byte(s)) && !strings.Contains(s, "\n") && !strings.HasPrefix(s, keptMark) {
		return s
	}
	return keptMark + url.QueryEscape(s)
}

// restore makes names of a form what they were before keep.
func restore(form url.Values) {
	for _, field := range []string{"queue", "id", "group", "filter"} {
		for i, value := range form[field] {
			escaped, ok := strings.CutPrefix(value, keptMark)
			if !ok {
				continue
			}
			if name, err := url.QueryUnescape(escaped); err == nil {
				form[field][i] = name
			}
		}
	}
}

// restored is a request for a page whose names are what they were before keep.
func restored(r *http.Request) *http.Request {
	if !strings.Contains(r.URL.RawQuery, url.QueryEscape(keptMark)) {
		return r
	}
	query := r.URL.Query()
	restore(query)
	with := *r.URL
	with.RawQuery = query.Encode()
	r = r.WithContext(r.Context())
	r.URL = &with
	return r
}

// typed is what somebody types who is to type a name: the field holds one line, and white space is hard to tell.
func typed(name string) string { return strings.Join(strings.Fields(name), " ") }
