package flow_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/flow"
	"github.com/asynq-go/asynq/internal/testenv"
)

func task() *asynq.Task { return asynq.NewTask("t", nil) }

func tasks(n int) (all []*asynq.Task) {
	for range n {
		all = append(all, task())
	}
	return all
}

// Flows that cannot be, and a part of the error.
var impossible = map[string]func() *flow.Flow{
	"flow ID must not be blank": func() *flow.Flow { return flow.New("") },
	"at most 200":               func() *flow.Flow { return flow.New(strings.Repeat("n", 201)) },
	"UTF-8":                     func() *flow.Flow { return flow.New("\xff") },
	"control characters":        func() *flow.Flow { return flow.New("line\nbreak") },
	"closing brace":             func() *flow.Flow { return flow.New("}x") },
	"the maximum is 1000":       func() *flow.Flow { return chain(1001) },
	"10001 tasks": func() *flow.Flow {
		f := flow.New("f")
		f.AddBatch("a", tasks(10_001))
		return f
	},
	"two nodes": func() *flow.Flow {
		f := flow.New("f")
		f.Add("a", task())
		f.Add("a", task())
		return f
	},
	"nil": func() *flow.Flow {
		f := flow.New("f")
		f.Add("a", nil)
		return f
	},
	"before it": func() *flow.Flow { // of another flow
		f := flow.New("f")
		f.Add("a", task()).After(flow.New("g").Add("b", task()))
		return f
	},
	"policy": func() *flow.Flow {
		f := flow.New("f")
		f.Add("a", task()).OnDependencyFailure("explode")
		return f
	},
	"etention": func() *flow.Flow {
		f := flow.New("f").Retention(-1)
		f.Add("a", task())
		return f
	},
}

func chain(n int) *flow.Flow { return flow.Chain("f", tasks(n)...) }

// Calls with hostile arguments return clear errors, and change nothing.
func TestHostileCalls(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx := context.Background()
		wantErr := func(err error, words string) {
			env.T.Helper()
			if err == nil || !strings.HasPrefix(err.Error(), "flow: ") || !strings.Contains(err.Error(), words) {
				env.T.Errorf("error %.300v, want one of this package with %q", err, words)
			}
		}
		for words, build := range impossible {
			wantErr(build().Validate(), words)
			_, err := flow.Start(ctx, env.Client, build())
			wantErr(err, words)
		}
		for _, opt := range []asynq.Option{
			asynq.Unique(time.Hour), asynq.UniqueKey("k", time.Hour), asynq.IdempotencyKey("k", time.Hour), asynq.Group("g"),
			asynq.Debounce("k", time.Second, time.Minute), asynq.Throttle("k", time.Second), asynq.TaskID("x"), asynq.Queue(""), asynq.Timeout(-1),
			asynq.CancelOnReturn(), nil,
		} {
			f := flow.New("f")
			f.AddBatch("a", tasks(1), opt)
			if err := f.Validate(); err == nil && opt != nil {
				env.T.Errorf("a flow accepts %v", opt)
			}
		}
		var none context.Context
		inspect := inspector(env)
		for name, err := range map[string]error{
			"Start":       errorOf(flow.Start(none, env.Client, chain(1))),
			"no client":   errorOf(flow.Start(ctx, nil, chain(1))),
			"no flow":     errorOf(flow.Start(ctx, env.Client, nil)),
			"OpenBatch":   errorOf(flow.OpenBatch(none, env.Client, flow.NewBatch("b"))),
			"no batch":    errorOf(flow.OpenBatch(ctx, env.Client, nil)),
			"ResumeBatch": errorOf(flow.ResumeBatch(none, env.Client, "b")),
			"Get":         errorOf(inspect.Get(none, "f")),
			"Advance":     errorOf(inspect.Advance(none, "f")),
			"Cancel":      errorOf(inspect.Cancel(none, "f")),
			"Skip":        errorOf(inspect.Skip(none, "f", "a")),
			"Result":      errorOf(inspect.Result(none, "f", "a")),
			"Count":       errorOf(inspect.Count(none, 1)),
			"Count of 0":  errorOf(inspect.Count(ctx, 0)),
		} {
			if err == nil {
				env.T.Errorf("%s: no error", name)
			} else {
				wantErr(err, "")
			}
		}
		for _, page := range [][2]int{{-1, 1}, {0, 0}, {0, -1}, {0, 1001}} {
			_, _, err := inspect.List(ctx, page[0], page[1])
			wantErr(err, "skip")
		}
		for _, id := range []string{"", "none", "\xff", "}", strings.Repeat("n", 1<<16)} {
			for name, err := range map[string]error{
				"Get": errorOf(inspect.Get(ctx, id)), "Advance": errorOf(inspect.Advance(ctx, id)), "Cancel": errorOf(inspect.Cancel(ctx, id)),
				"Skip": errorOf(inspect.Skip(ctx, id, "a")), "Result": errorOf(inspect.Result(ctx, id, "a")), "ResumeBatch": errorOf(flow.ResumeBatch(ctx, env.Client, id)),
			} {
				if !errors.Is(err, flow.ErrNotFound) {
					env.T.Errorf("%s of %.20q: %v", name, id, err)
				}
			}
		}
		if _, ok := flow.FromContext(ctx); ok {
			env.T.Error("a context without a task has a member")
		}
		if left := env.Snapshot(env.T); len(left) > 0 {
			env.T.Errorf("the calls left %v", slices.Collect(maps.Keys(left)))
		}
	})
}

// Names of flows and nodes may contain anything else.
func TestUnusualNames(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx := context.Background()
		env.Serve(asynq.Config{Concurrency: 4}, func(context.Context, *asynq.Task) error { return nil })
		for _, name := range []string{
			"op{ening", "{}", "a}b", "quo\"tes'`", "*?[a-z]\\", " blanks ", "a;b", "%s%25", "ünï☃𝄞", "=", "a/b?c#d",
		} {
			f := flow.New(name)
			first := f.Add(name, task(), asynq.Queue("default"))
			f.AddBatch("2 "+name, tasks(2)).After(first)
			if err := f.Validate(); err != nil {
				env.T.Errorf("%q: %v", name, err)
				continue
			}
			start(env, f)
			awaitStatus(env, name, flow.Succeeded)
			if _, err := inspector(env).Result(ctx, name, name); !errors.Is(err, flow.ErrNoResult) {
				env.T.Errorf("the result in %q: %v", name, err)
			}
		}
	})
}

func errorOf[T any](_ T, err error) error { return err }
