package asynq

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// A Handler processes tasks.
//
// ProcessTask returns nil if the task succeeded. If it returns an error or panics, the task is
// retried later, or archived if its retries are exhausted. An error that wraps SkipRetry archives
// the task immediately; an error that wraps RevokeTask deletes it. See also RetryAfter and Snooze.
//
// ProcessTask must return soon after ctx ends. It is called concurrently for different tasks. It
// should be idempotent, because a task runs again if its server crashed before the outcome was
// stored.
type Handler interface {
	ProcessTask(context.Context, *Task) error
}

// HandlerFunc adapts a function to a Handler.
type HandlerFunc func(context.Context, *Task) error

// ProcessTask calls fn(ctx, task).
func (fn HandlerFunc) ProcessTask(ctx context.Context, task *Task) error {
	return fn(ctx, task)
}

// MiddlewareFunc returns a handler that wraps the given one, usually to run code before and after
// it.
type MiddlewareFunc func(Handler) Handler

// ServeMux is a Handler that calls the handler registered for the type of a task.
//
// A pattern matches all types that begin with it, and the longest matching pattern takes
// precedence: with "images" and "images:thumbnails" registered, the second handles the type
// "images:thumbnails:small" and the first "images:crop".
//
// The zero value is ready for use. A ServeMux is safe for concurrent use, also while tasks are
// processed. It must not be copied.
type ServeMux struct {
	// routes is read by lookups without a lock. If nil, the next lookup builds it.
	routes atomic.Pointer[routeTable]

	mu          sync.Mutex // guards the fields below, and the building of routes
	handlers    map[string]Handler
	middlewares []MiddlewareFunc
}

// NewServeMux returns an empty ServeMux.
func NewServeMux() *ServeMux {
	return new(ServeMux)
}

// Handle registers handler for pattern. It panics if the pattern is blank or already registered, or
// if the handler is nil.
func (mux *ServeMux) Handle(pattern string, handler Handler) {
	if strings.TrimSpace(pattern) == "" {
		panic("asynq: invalid pattern")
	}
	if isNilHandler(handler) {
		panic("asynq: nil handler")
	}
	mux.mu.Lock()
	defer mux.mu.Unlock()
	if _, taken := mux.handlers[pattern]; taken {
		panic("asynq: multiple registrations for " + pattern)
	}
	if mux.handlers == nil {
		mux.handlers = make(map[string]Handler)
	}
	mux.handlers[pattern] = handler
	mux.routes.Store(nil)
}

// isNilHandler reports whether handler is nil, or a nil HandlerFunc or *ServeMux. A nil pointer of
// another type may be a valid handler.
func isNilHandler(handler Handler) bool {
	switch h := handler.(type) {
	case nil:
		return true
	case HandlerFunc:
		return h == nil
	case *ServeMux:
		return h == nil
	default:
		return false
	}
}

// HandleFunc registers a function for pattern, like Handle.
func (mux *ServeMux) HandleFunc(pattern string, handler func(context.Context, *Task) error) {
	mux.Handle(pattern, HandlerFunc(handler))
}

// Use adds middleware around all handlers, whether they are registered before or after, and around
// the handler of tasks without a matching pattern. The first middleware is the outermost.
//
// A middleware is called once per handler, and again after the next Handle or Use, not once per
// task. It must not call methods of the ServeMux or return nil. Use panics if a middleware is nil.
func (mux *ServeMux) Use(mws ...MiddlewareFunc) {
	for _, mw := range mws {
		if mw == nil {
			panic("asynq: nil middleware")
		}
	}
	mux.mu.Lock()
	defer mux.mu.Unlock()
	mux.middlewares = append(mux.middlewares, mws...)
	mux.routes.Store(nil)
}

// Handler returns the handler for the type of t, wrapped in the middleware, and its pattern. If no
// pattern matches, the handler is NotFoundHandler and the pattern is empty.
func (mux *ServeMux) Handler(t *Task) (h Handler, pattern string) {
	table := mux.routes.Load()
	if table == nil {
		table = mux.buildRoutes()
	}
	r := table.find(t.Type())
	return r.handler, r.pattern
}

// Patterns returns the registered patterns, sorted. It is empty, but not nil, if there are none. A
// Server publishes them, see ServerInfo.Patterns.
func (mux *ServeMux) Patterns() []string {
	mux.mu.Lock()
	defer mux.mu.Unlock()
	patterns := make([]string, 0, len(mux.handlers))
	for pattern := range mux.handlers {
		patterns = append(patterns, pattern)
	}
	slices.Sort(patterns)
	return patterns
}

// ProcessTask calls the handler that Handler returns for task.
func (mux *ServeMux) ProcessTask(ctx context.Context, task *Task) error {
	h, _ := mux.Handler(task)
	return h.ProcessTask(ctx, task)
}

// NotFound returns an error that wraps ErrHandlerNotFound and names the type of the task.
func NotFound(_ context.Context, task *Task) error {
	return fmt.Errorf("%w %q", ErrHandlerNotFound, task.Type())
}

// NotFoundHandler returns a Handler that calls NotFound.
func NotFoundHandler() Handler { return HandlerFunc(NotFound) }

// routeTable is an immutable snapshot of a ServeMux, with the middleware applied.
type routeTable struct {
	byPattern map[string]route
	lengths   []int // distinct lengths of the patterns, in descending order
	notFound  route
}

type route struct {
	pattern string
	handler Handler
}

// find returns the route of a type. It takes at most one map lookup per distinct length of a
// pattern.
func (t *routeTable) find(typename string) route {
	for _, n := range t.lengths {
		if n > len(typename) {
			continue
		}
		if r, ok := t.byPattern[typename[:n]]; ok {
			return r
		}
	}
	return t.notFound
}

// buildRoutes returns the table of the registered handlers and stores it for later lookups.
func (mux *ServeMux) buildRoutes() *routeTable {
	mux.mu.Lock()
	defer mux.mu.Unlock()
	if table := mux.routes.Load(); table != nil {
		return table // a concurrent lookup built it
	}
	table := &routeTable{
		byPattern: make(map[string]route, len(mux.handlers)),
		notFound:  route{handler: mux.wrap(NotFoundHandler())},
	}
	for pattern, handler := range mux.handlers {
		table.byPattern[pattern] = route{pattern, mux.wrap(handler)}
		table.lengths = append(table.lengths, len(pattern))
	}
	slices.SortFunc(table.lengths, func(a, b int) int { return cmp.Compare(b, a) })
	table.lengths = slices.Compact(table.lengths)
	mux.routes.Store(table)
	return table
}

func (mux *ServeMux) wrap(h Handler) Handler {
	for _, mw := range slices.Backward(mux.middlewares) {
		if h = mw(h); h == nil {
			panic("asynq: a middleware returned a nil handler")
		}
	}
	return h
}
