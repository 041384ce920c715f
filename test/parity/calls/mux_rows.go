package main

import (
	"context"
	"fmt"

	"github.com/hibiken/asynq"
)

// named is a handler with a name.
func named(s *site, name string) asynq.Handler {
	return asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error {
		s.see("handler", name)
		return nil
	})
}

func addMuxRows() {
	sets := map[string][]string{
		"no patterns": nil,
		"email":       {"email"},
		"two":         {"email", "email:welcome"},
		"colons":      {"email:", "image:resize", ":"},
		"overlap":     {"a", "ab", "abc"},
		"blank":       {" a"},
	}
	types := []string{"email", "email:welcome", "email:welcome:x", "emai", "emails", "", " ", ":", "a", "abd", "abcd", "Email", " a", "image:resize"}
	for _, set := range sortedKeys(sets) {
		for _, name := range types {
			add(fmt.Sprintf("ServeMux with %s: %q", set, name), func(s *site) {
				s.noDump = true
				mux := asynq.NewServeMux()
				for _, pattern := range sets[set] {
					mux.Handle(pattern, named(s, pattern))
				}
				h, pattern := mux.Handler(asynq.NewTask(name, nil))
				s.see("pattern", fmt.Sprintf("%q", pattern))
				s.err(h.ProcessTask(context.Background(), asynq.NewTask(name, nil)))
				s.at("ProcessTask")
				s.err(mux.ProcessTask(context.Background(), asynq.NewTask(name, nil)))
			})
		}
	}
	handle := func(name string, f func(s *site, mux *asynq.ServeMux)) {
		add("ServeMux."+name, func(s *site) {
			s.noDump = true
			f(s, asynq.NewServeMux())
			s.see("panics", false)
		})
	}
	handle(`Handle("")`, func(s *site, mux *asynq.ServeMux) { mux.Handle("", named(s, "")) })
	handle(`Handle(" ")`, func(s *site, mux *asynq.ServeMux) { mux.Handle(" ", named(s, " ")) })
	handle(`Handle("a", nil)`, func(s *site, mux *asynq.ServeMux) { mux.Handle("a", nil) })
	handle(`Handle("a", HandlerFunc(nil))`, func(s *site, mux *asynq.ServeMux) { mux.Handle("a", asynq.HandlerFunc(nil)) })
	handle(`Handle("a", (*ServeMux)(nil))`, func(s *site, mux *asynq.ServeMux) { mux.Handle("a", (*asynq.ServeMux)(nil)) })
	handle(`HandleFunc("a", nil)`, func(s *site, mux *asynq.ServeMux) { mux.HandleFunc("a", nil) })
	handle(`Handle twice`, func(s *site, mux *asynq.ServeMux) { mux.Handle("a", named(s, "")); mux.Handle("a", named(s, "")) })
	handle(`Use()`, func(s *site, mux *asynq.ServeMux) { mux.Use() })
	handle(`Use(nil)`, func(s *site, mux *asynq.ServeMux) {
		mux.Handle("a", named(s, "a"))
		mux.Use(nil)
		s.err(mux.ProcessTask(context.Background(), asynq.NewTask("a", nil)))
	})
	handle("Handler(nil)", func(s *site, mux *asynq.ServeMux) {
		_, pattern := mux.Handler(nil)
		s.see("pattern", pattern)
	})
	handle("ProcessTask(nil)", func(s *site, mux *asynq.ServeMux) { s.err(mux.ProcessTask(context.Background(), nil)) })
	handle("Use: order", func(s *site, mux *asynq.ServeMux) {
		around := func(name string) asynq.MiddlewareFunc {
			return func(h asynq.Handler) asynq.Handler {
				return asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
					s.see("before", name)
					err := h.ProcessTask(ctx, t)
					s.see("after", name)
					return err
				})
			}
		}
		mux.Use(around("1"), around("2"))
		mux.Handle("a", named(s, "a"))
		mux.Use(around("3"))
		s.err(mux.ProcessTask(context.Background(), asynq.NewTask("a", nil)))
		s.at("unknown type")
		s.err(mux.ProcessTask(context.Background(), asynq.NewTask("x", nil)))
	})
	handle("Handle of another ServeMux", func(s *site, mux *asynq.ServeMux) {
		inner := asynq.NewServeMux()
		inner.Handle("a:b", named(s, "inner"))
		mux.Handle("a", inner)
		s.err(mux.ProcessTask(context.Background(), asynq.NewTask("a:b", nil)))
		s.at("unknown")
		s.err(mux.ProcessTask(context.Background(), asynq.NewTask("a:c", nil)))
	})
	handle("zero value", func(s *site, mux *asynq.ServeMux) {
		var zero asynq.ServeMux
		s.err(zero.ProcessTask(context.Background(), asynq.NewTask("a", nil)))
		zero.Handle("a", named(s, "a"))
		s.err(zero.ProcessTask(context.Background(), asynq.NewTask("a", nil)))
	})
	add("NotFound(task)", func(s *site) { s.err(asynq.NotFound(context.Background(), asynq.NewTask("x", nil))) })
	add("NotFound(nil)", func(s *site) { s.err(asynq.NotFound(context.Background(), nil)) })
	add("NotFoundHandler", func(s *site) {
		s.err(asynq.NotFoundHandler().ProcessTask(context.Background(), asynq.NewTask("x", nil)))
	})
}
