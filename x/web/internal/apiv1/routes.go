package apiv1

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// args are the names in a path.
type args struct{ queue, group, id, entry string }

// route is a method and a pattern for the path after /api. In a pattern, {name} stands for one
// segment; a text after it must match literally.
type route struct {
	method string
	path   []string
	call   func(*handler, *exchange)
}

func on(method, pattern string, call func(*handler, *exchange)) route {
	return route{method: method, path: strings.Split(pattern[1:], "/"), call: call}
}

// routes is the table of all routes.
var routes = append([]route{
	on(http.MethodGet, "/queues", (*handler).queues),
	on(http.MethodGet, "/queues/{queue}", (*handler).queue),
	on(http.MethodDelete, "/queues/{queue}", (*handler).deleteQueue),
	on(http.MethodPost, "/queues/{queue}:pause", (*handler).pauseQueue),
	on(http.MethodPost, "/queues/{queue}:resume", (*handler).resumeQueue),
	on(http.MethodGet, "/queue_stats", (*handler).queueStats),
	on(http.MethodGet, "/queues/{queue}/groups", (*handler).groups),
	on(http.MethodGet, "/queues/{queue}/tasks/{id}", (*handler).task),
	on(http.MethodGet, "/servers", (*handler).servers),
	on(http.MethodGet, "/scheduler_entries", (*handler).entries),
	on(http.MethodGet, "/scheduler_entries/{entry}/enqueue_events", (*handler).events),
	on(http.MethodGet, "/redis_info", (*handler).redisInfo),
	on(http.MethodGet, "/metrics", (*handler).metrics),
}, taskRoutes()...)

// taskRoutes returns the routes of the task lists: one list per state, with the changes that the
// state allows.
func taskRoutes() []route {
	var all []route
	for _, l := range lists {
		list := "/queues/{queue}/" + l.name + "_tasks"
		if l.grouped {
			list = "/queues/{queue}/groups/{group}/" + l.name + "_tasks"
		}
		all = append(all, on(http.MethodGet, list, func(h *handler, x *exchange) { h.list(x, l) }))
		for _, c := range l.changes {
			method := http.MethodPost
			one := list + "/{id}:" + c.name
			if c.name == "delete" {
				method, one = http.MethodDelete, list+"/{id}"
			}
			all = append(all,
				on(method, one, func(h *handler, x *exchange) { h.changeOne(x, c) }),
				on(method, list+":"+c.name+"_all", func(h *handler, x *exchange) { h.changeAll(x, l, c) }),
				on(http.MethodPost, list+":batch_"+c.name, func(h *handler, x *exchange) { h.changeBatch(x, l, c) }),
			)
		}
	}
	return all
}

// split returns the escaped segments after /api.
func split(escaped string) ([]string, bool) {
	rest, ok := strings.CutPrefix(escaped, "/api/")
	return strings.Split(rest, "/"), ok
}

// find returns the handler for a method and a path, or else the methods that the path supports.
func find(method string, segments []string) (call func(*handler, *exchange), found args, methods []string) {
	if method == http.MethodHead {
		method = http.MethodGet // the server omits the body
	}
	for _, r := range routes {
		a, ok := r.match(segments)
		if !ok {
			continue
		}
		if r.method == method {
			return r.call, a, nil
		}
		if !slices.Contains(methods, r.method) {
			methods = append(methods, r.method)
		}
	}
	if slices.Contains(methods, http.MethodGet) {
		methods = append(methods, http.MethodHead)
	}
	slices.Sort(methods)
	return nil, args{}, methods
}

// match matches the segments of a path with the route.
//
// Names may contain anything, including the text of a verb. That is not ambiguous: a verb is the
// unescaped end of the last segment, and only for methods that have verbs. So DELETE …/a:run
// deletes a:run, POST …/a:run:archive archives it, and POST …/a%3Arun does not run a.
func (r *route) match(segments []string) (found args, ok bool) {
	if len(segments) != len(r.path) {
		return args{}, false
	}
	for n, pattern := range r.path {
		name, end, isName := strings.Cut(pattern, "}")
		if !isName {
			if literal, err := url.PathUnescape(segments[n]); err != nil || literal != pattern {
				return args{}, false
			}
			continue
		}
		raw, ends := strings.CutSuffix(segments[n], end)
		value, err := url.PathUnescape(raw)
		if !ends || err != nil || value == "" {
			return args{}, false
		}
		switch name {
		case "{queue":
			found.queue = value
		case "{group":
			found.group = value
		case "{id":
			found.id = value
		case "{entry":
			found.entry = value
		}
	}
	return found, true
}
