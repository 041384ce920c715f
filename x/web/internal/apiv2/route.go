package apiv2

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// route is one method of one resource, with its handler and its documentation for OpenAPI.
type route struct {
	method string
	path   string // below /api/v2; {name} is one segment, unescaped
	id     string
	tag    string
	doc    string
	params []param // of the query; path parameters follow from path
	body   any     // a value of the type of the request body
	opt    bool    // the body is optional
	status int     // 0: 200, or 204 if out is nil
	out    any     // a value of the type of the response body
	handle func(*call) (any, error)

	also     map[int]any // other successful responses
	problems []int       // statuses of problems, in addition to those of all routes
	example  any         // of the request body
}

// param is a query parameter.
type param struct {
	name     string
	kind     string // string, integer, boolean
	doc      string
	list     bool // it may be repeated, or contain commas
	enum     []string
	min, max int // of an integer
	def      any
}

// segments splits an escaped path and unescapes its parts. ok is false if a part is invalid.
func segments(path string) (parts []string, ok bool) {
	path = strings.TrimPrefix(path, "/")
	if path == "" {
		return nil, true
	}
	for part := range strings.SplitSeq(path, "/") {
		plain, err := url.PathUnescape(part)
		if err != nil {
			return nil, false
		}
		parts = append(parts, plain)
	}
	return parts, true
}

// find returns the route of a request, or else the methods that its resource supports.
func (a *api) find(method, path string) (found *route, allowed []string, values map[string]string) {
	parts, ok := segments(path)
	if !ok {
		return nil, nil, nil
	}
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for _, r := range a.routes {
		v, ok := r.match(parts)
		if !ok {
			continue
		}
		if r.method == method {
			return r, nil, v
		}
		allowed = append(allowed, r.method)
		if r.method == http.MethodGet {
			allowed = append(allowed, http.MethodHead)
		}
	}
	if len(allowed) > 0 {
		allowed = append(allowed, http.MethodOptions)
	}
	slices.Sort(allowed)
	return nil, allowed, nil
}

// match returns the values in a path.
func (r *route) match(parts []string) (map[string]string, bool) {
	pattern, _ := segments(r.path)
	if len(pattern) != len(parts) {
		return nil, false
	}
	values := make(map[string]string)
	for i, p := range pattern {
		name, ok := placeholder(p)
		switch {
		case ok && parts[i] != "":
			values[name] = parts[i]
		case ok || p != parts[i]:
			return nil, false
		}
	}
	return values, true
}

func placeholder(segment string) (name string, ok bool) {
	name, ok = strings.CutPrefix(segment, "{")
	if !ok {
		return "", false
	}
	return strings.TrimSuffix(name, "}"), true
}

// link returns the path of a resource, for Location.
func (a *api) link(parts ...string) string {
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return strings.TrimSuffix(a.RootPath, "/") + prefix + "/" + strings.Join(parts, "/")
}
