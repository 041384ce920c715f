package ui

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// keptMark is the prefix of names that are encoded in forms because a browser would change them.
const keptMark = "%="

// keep encodes a name as the value of a form field. Browsers convert line ends to CRLF and replace
// invalid UTF-8; names may contain both.
func keep(name any) string {
	s := fmt.Sprint(name)
	if fitsField([]byte(s)) && !strings.Contains(s, "\n") && !strings.HasPrefix(s, keptMark) {
		return s
	}
	return keptMark + url.QueryEscape(s)
}

// restore decodes the names of a form that were encoded by keep.
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

// restored returns a request with the names in its query decoded.
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

// typed returns a name as users have to type it for confirmation: on one line, with collapsed white
// space.
func typed(name string) string { return strings.Join(strings.Fields(name), " ") }
