package asynq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// namedHandler returns a handler that returns its name as an error, to identify it.
func namedHandler(name string) Handler {
	return HandlerFunc(func(context.Context, *Task) error { return errors.New(name) })
}

func TestServeMuxLongestPattern(t *testing.T) {
	t.Parallel()
	mux := NewServeMux()
	for _, pattern := range []string{"email:", "email:signup", "csv:export", "images", "images:thumbnails", "é"} {
		mux.Handle(pattern, namedHandler(pattern))
	}
	tests := []struct{ typename, pattern string }{
		{"email:signup", "email:signup"},
		{"email:signup:eu", "email:signup"},
		{"email:signu", "email:"},
		{"email:", "email:"},
		{"email:daily", "email:"},
		{"images", "images"},
		{"images:crop", "images"},
		{"imagesque", "images"},
		{"images:thumbnails:small", "images:thumbnails"},
		{"été", "é"},
		{"email", ""},
		{"csv:expor", ""},
		{"Email:signup", ""},
		{" email:signup", ""},
		{"", ""},
	}
	for _, tc := range tests {
		task := NewTask(tc.typename, nil)
		h, pattern := mux.Handler(task)
		if pattern != tc.pattern {
			t.Errorf("Handler(%q) has pattern %q, want %q", tc.typename, pattern, tc.pattern)
		}
		if h == nil {
			t.Fatalf("Handler(%q) is nil", tc.typename)
		}
		err := mux.ProcessTask(context.Background(), task)
		if tc.pattern == "" {
			if !errors.Is(err, ErrHandlerNotFound) {
				t.Errorf("ProcessTask(%q) = %v, want ErrHandlerNotFound", tc.typename, err)
			}
		} else if err == nil || err.Error() != tc.pattern {
			t.Errorf("ProcessTask(%q) = %v, want the handler of %q", tc.typename, err, tc.pattern)
		}
	}
}

func TestServeMuxZeroValue(t *testing.T) {
	t.Parallel()
	var mux ServeMux
	if _, pattern := mux.Handler(NewTask("a", nil)); pattern != "" {
		t.Errorf("an empty mux has pattern %q", pattern)
	}
	mux.HandleFunc("a", func(context.Context, *Task) error { return nil })
	if err := mux.ProcessTask(context.Background(), NewTask("a", nil)); err != nil {
		t.Errorf("handler registered after a lookup: %v", err)
	}
}

func TestNotFoundNamesTheTask(t *testing.T) {
	t.Parallel()
	err := NotFoundHandler().ProcessTask(context.Background(), NewTask("email:send", nil))
	if !errors.Is(err, ErrHandlerNotFound) {
		t.Errorf("%v does not wrap ErrHandlerNotFound", err)
	}
	if want := `handler not found for task "email:send"`; err.Error() != want {
		t.Errorf("error is %q, want %q", err, want)
	}
}

func TestServeMuxPanicsOnMisuse(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, want string
		misuse     func(mux *ServeMux)
	}{
		{"empty pattern", "asynq: invalid pattern", func(mux *ServeMux) { mux.Handle("", NotFoundHandler()) }},
		{"blank pattern", "asynq: invalid pattern", func(mux *ServeMux) { mux.Handle(" \t\n", NotFoundHandler()) }},
		{"nil handler", "asynq: nil handler", func(mux *ServeMux) { mux.Handle("b", nil) }},
		{"nil func", "asynq: nil handler", func(mux *ServeMux) { mux.HandleFunc("b", nil) }},
		{"nil HandlerFunc", "asynq: nil handler", func(mux *ServeMux) { mux.Handle("b", HandlerFunc(nil)) }},
		{"twice", "asynq: multiple registrations for a", func(mux *ServeMux) { mux.Handle("a", NotFoundHandler()) }},
		{"nil middleware", "asynq: nil middleware", func(mux *ServeMux) { mux.Use(nil) }},
		{"middleware without a handler", "asynq: a middleware returned a nil handler", func(mux *ServeMux) {
			mux.Use(func(Handler) Handler { return nil })
			mux.Handler(NewTask("a", nil))
		}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			mux := NewServeMux()
			mux.Handle("a", NotFoundHandler())
			defer func() {
				if got := recover(); got != tc.want {
					t.Errorf("panic %v, want %q", got, tc.want)
				}
				// The mux must not stay locked.
				mux.Handle("c", NotFoundHandler())
			}()
			tc.misuse(mux)
		})
	}
}

// traceMiddleware returns a middleware that records when it is entered and left.
func traceMiddleware(events *[]string, name string) MiddlewareFunc {
	return func(next Handler) Handler {
		return HandlerFunc(func(ctx context.Context, task *Task) error {
			*events = append(*events, name+" in")
			err := next.ProcessTask(ctx, task)
			*events = append(*events, name+" out")
			return err
		})
	}
}

func TestMiddlewareOrder(t *testing.T) {
	t.Parallel()
	want := []string{"1 in", "2 in", "3 in", "3 out", "2 out", "1 out"}
	for _, typename := range []string{"before", "after", "unknown"} {
		var events []string
		mux := NewServeMux()
		mux.Handle("before", namedHandler("before"))
		mux.Use(traceMiddleware(&events, "1"), traceMiddleware(&events, "2"))
		mux.Handler(NewTask("before", nil)) // must not be cached beyond the next Use
		mux.Use(traceMiddleware(&events, "3"))
		mux.Handle("after", namedHandler("after"))

		err := mux.ProcessTask(context.Background(), NewTask(typename, nil))
		if typename == "unknown" {
			if !errors.Is(err, ErrHandlerNotFound) {
				t.Errorf("%s: error %v, want ErrHandlerNotFound", typename, err)
			}
		} else if err == nil || err.Error() != typename {
			t.Errorf("%s: error %v, want the error of the handler", typename, err)
		}
		if !slices.Equal(events, want) {
			t.Errorf("%s: middlewares ran as %v, want %v", typename, events, want)
		}

		events = nil
		h, _ := mux.Handler(NewTask(typename, nil))
		_ = h.ProcessTask(context.Background(), NewTask(typename, nil))
		if !slices.Equal(events, want) {
			t.Errorf("%s: middlewares of the result of Handler ran as %v, want %v", typename, events, want)
		}
	}
}

func TestMiddlewareIsAppliedOncePerHandler(t *testing.T) {
	t.Parallel()
	var applied int
	mux := NewServeMux()
	mux.Use(func(next Handler) Handler {
		applied++
		return next
	})
	mux.Handle("a", namedHandler("a"))
	mux.Handle("b", namedHandler("b"))
	for range 10 {
		mux.Handler(NewTask("a", nil))
		mux.Handler(NewTask("b", nil))
		mux.Handler(NewTask("none", nil))
	}
	if applied != 3 {
		t.Errorf("the middleware was applied %d times, want 3: for two handlers and the not-found handler", applied)
	}
}

func TestServeMuxDoesNotAllocate(t *testing.T) { // not parallel: AllocsPerRun counts all allocations
	mux := NewServeMux()
	mux.Use(func(next Handler) Handler {
		return HandlerFunc(func(ctx context.Context, task *Task) error { return next.ProcessTask(ctx, task) })
	})
	for i := range 1000 {
		mux.HandleFunc(fmt.Sprintf("type-%d:", i), func(context.Context, *Task) error { return nil })
	}
	ctx := context.Background()
	for _, task := range []*Task{NewTask("type-1:", nil), NewTask("type-999:with:a:tail", nil)} {
		allocs := testing.AllocsPerRun(100, func() {
			if err := mux.ProcessTask(ctx, task); err != nil {
				t.Fatal(err)
			}
		})
		if allocs != 0 {
			t.Errorf("ProcessTask(%q) makes %v allocations, want none", task.Type(), allocs)
		}
	}
	unknown := NewTask("unknown", nil)
	if allocs := testing.AllocsPerRun(100, func() { mux.Handler(unknown) }); allocs != 0 {
		t.Errorf("Handler for an unknown type makes %v allocations, want none", allocs)
	}
}

func TestServeMuxConcurrentUse(t *testing.T) {
	t.Parallel()
	const writers, readers, patterns = 4, 4, 50
	mux := NewServeMux()
	mux.HandleFunc("base", func(context.Context, *Task) error { return nil })
	var calls atomic.Int64
	counting := func(next Handler) Handler {
		return HandlerFunc(func(ctx context.Context, task *Task) error {
			calls.Add(1)
			return next.ProcessTask(ctx, task)
		})
	}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range patterns {
				pattern := fmt.Sprintf("w%d:%d:", w, i)
				mux.Handle(pattern, namedHandler(pattern))
				if i%10 == 0 {
					mux.Use(counting)
				}
				if _, got := mux.Handler(NewTask(pattern+"x", nil)); got != pattern {
					t.Errorf("after Handle(%q), the pattern is %q", pattern, got)
				}
			}
		})
	}
	for range readers {
		wg.Go(func() {
			for range 500 {
				if err := mux.ProcessTask(context.Background(), NewTask("base:x", nil)); err != nil {
					t.Errorf("ProcessTask: %v", err)
				}
			}
		})
	}
	wg.Wait()
	calls.Store(0)
	if err := mux.ProcessTask(context.Background(), NewTask("base", nil)); err != nil {
		t.Fatal(err)
	}
	if got, want := calls.Load(), int64(writers*patterns/10); got != want {
		t.Errorf("%d middlewares ran at the end, want %d", got, want)
	}
}

func BenchmarkServeMux(b *testing.B) {
	for _, n := range []int{1, 100, 10000} {
		b.Run(fmt.Sprintf("patterns=%d", n), func(b *testing.B) {
			mux := NewServeMux()
			for i := range n {
				mux.Handle(fmt.Sprintf("service:%d:%s", i, strings.Repeat("x", i%20)), NotFoundHandler())
			}
			task := NewTask("service:0:and:a:tail", nil)
			b.ReportAllocs()
			for b.Loop() {
				mux.Handler(task)
			}
		})
	}
}

// FuzzServeMux registers patterns and compares the matching one with a linear search.
func FuzzServeMux(f *testing.F) {
	f.Add("a\nab\nabc", "abcd")
	f.Add("email:\n\n \nemail:welcome", "email:welcome")
	f.Add("\xff\n\xc3", "\xff\xfe")
	f.Fuzz(func(t *testing.T, patterns, typename string) {
		mux := NewServeMux()
		want := ""
		var known []string
		for pattern := range strings.SplitSeq(patterns, "\n") {
			if strings.TrimSpace(pattern) == "" || slices.Contains(known, pattern) {
				continue // rejected with a panic
			}
			known = append(known, pattern)
			mux.Handle(pattern, namedHandler(pattern))
			if strings.HasPrefix(typename, pattern) && len(pattern) > len(want) {
				want = pattern
			}
		}
		task := NewTask(typename, nil)
		if _, got := mux.Handler(task); got != want {
			t.Errorf("type %q is handled by %q, want %q of %q", typename, got, want, known)
		}
		if err := mux.ProcessTask(context.Background(), task); want != "" && err.Error() != want {
			t.Errorf("the handler of %q returned %q", want, err)
		}
	})
}
