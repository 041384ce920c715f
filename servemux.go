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
// ProcessTask returns nil when the task is done. On an error or a panic the task is tried again later, until it has
// used up its retries and is archived. An error that wraps SkipRetry archives it at once; one that wraps RevokeTask
// drops it: it is neither tried again nor archived.
//
// ProcessTask must return soon after ctx ends. It may run for several tasks at once, and more than once for the same
// task: a task whose outcome was lost with its process runs again.
type Handler interface {
	ProcessTask(context.Context, *Task) error
}

// HandlerFunc makes a function a Handler.
type HandlerFunc func(context.Context, *Task) error

// ProcessTask calls fn(ctx, task).
func (fn HandlerFunc) ProcessTask(ctx context.Context, task *Task) error {
	return fn(ctx, task)
}

// MiddlewareFunc wraps a handler in another, which typically does something before and after it calls the first.
type MiddlewareFunc func(Handler) Handler

// ServeMux hands each task to the handler whose pattern fits its type best.
//
// A pattern fits every type that begins with it, and the longest pattern that fits wins: with "images" and
// "images:thumbnails" registered, a task of type "images:thumbnails:small" goes to the second and one of type
// "images:crop" to the first. "" and blanks are no patterns.
//
// The zero value is ready for use. All methods may be called at the same time, also while tasks are processed. A
// ServeMux must not be copied.
type ServeMux struct {
	// routes is what lookups read, without a lock. Nil: to be built by the next lookup.
	routes atomic.Pointer[routeTable]

	mu          sync.Mutex // guards what routes is built from, and the building
	handlers    map[string]Handler
	middlewares []MiddlewareFunc
}

// NewServeMux returns an empty ServeMux.
func NewServeMux() *ServeMux {
	return new(ServeMux)
}

// Handle registers handler for pattern. It panics if the pattern is blank or already registered, or the handler nil (or a HandlerFunc or
// *ServeMux that is).
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

// isNilHandler reports whether there is no handler. Other types than these two may well work as a nil pointer.
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

// HandleFunc registers a function as Handle does a handler.
func (mux *ServeMux) HandleFunc(pattern string, handler func(context.Context, *Task) error) {
	mux.Handle(pattern, HandlerFunc(handler))
}

// Use adds middlewares around all handlers, registered before or after, and around the one for tasks that no pattern
// fits. The first middleware ever given is the outermost: it sees a task first and its outcome last.
//
// A middleware is called once for each handler, and again after the next Handle or Use, not for each task. It must not
// call back into the mux, and must not return nil. Use panics if a middleware is nil.
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

// Handler returns the handler for the type of t, in its middlewares, and the pattern it is registered for. If no
// pattern fits, the handler is NotFoundHandler, also in the middlewares, and the pattern is "".
func (mux *ServeMux) Handler(t *Task) (h Handler, pattern string) {
	table := mux.routes.Load()
	if table == nil {
		table = mux.buildRoutes()
	}
	r := table.find(t.Type())
	return r.handler, r.pattern
}

// ProcessTask hands task to the handler that Handler finds for it, and returns its error.
func (mux *ServeMux) ProcessTask(ctx context.Context, task *Task) error {
	h, _ := mux.Handler(task)
	return h.ProcessTask(ctx, task)
}

// NotFound returns an error that wraps ErrHandlerNotFound and names the type of the task.
func NotFound(_ context.Context, task *Task) error {
	return fmt.Errorf("%w %q", ErrHandlerNotFound, task.Type())
}

// NotFoundHandler returns a Handler that answers every task with NotFound.
func NotFoundHandler() Handler { return HandlerFunc(NotFound) }

// routeTable is a ServeMux at one moment, with the middlewares applied. It never changes.
type routeTable struct {
	byPattern map[string]route
	lengths   []int // of the patterns, each once, the longest first
	notFound  route
}

type route struct {
	pattern string
	handler Handler
}

// find costs at most one map lookup for each distinct length of a pattern, however many patterns there are.
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

// buildRoutes returns the table for what is registered now, and leaves it for the lookups that follow.
func (mux *ServeMux) buildRoutes() *routeTable {
	mux.mu.Lock()
	defer mux.mu.Unlock()
	if table := mux.routes.Load(); table != nil {
		return table // another lookup was quicker
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
