package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hibiken/asynq"
)

// addHandlerRows adds rows for the outcomes of tasks that a server processes.
func addHandlerRows() {
	failed := errors.New("failed")
	outcomes := []struct {
		name string
		f    func(ctx context.Context, t *asynq.Task) error
	}{
		{"nil", nothing},
		{"an error", func(context.Context, *asynq.Task) error { return failed }},
		{"an error with an empty text", func(context.Context, *asynq.Task) error { return errors.New("") }},
		{"SkipRetry", func(context.Context, *asynq.Task) error { return asynq.SkipRetry }},
		{"an error that wraps SkipRetry", func(context.Context, *asynq.Task) error { return fmt.Errorf("wrapped: %w", asynq.SkipRetry) }},
		{"RevokeTask", func(context.Context, *asynq.Task) error { return asynq.RevokeTask }},
		{"an error that wraps RevokeTask", func(context.Context, *asynq.Task) error { return fmt.Errorf("wrapped: %w", asynq.RevokeTask) }},
		{"both joined", func(context.Context, *asynq.Task) error { return errors.Join(asynq.RevokeTask, asynq.SkipRetry) }},
		{"context.Canceled", func(context.Context, *asynq.Task) error { return context.Canceled }},
		{"ErrLeaseExpired", func(context.Context, *asynq.Task) error { return asynq.ErrLeaseExpired }},
		{"a panic with a text", func(context.Context, *asynq.Task) error { panic("text") }},
		{"a panic with an error", func(context.Context, *asynq.Task) error { panic(failed) }},
		{"a panic with SkipRetry", func(context.Context, *asynq.Task) error { panic(asynq.SkipRetry) }},
		{"a panic of the runtime", func(context.Context, *asynq.Task) error { noMap["x"] = 1; return nil }},
		{"a result", func(_ context.Context, t *asynq.Task) error {
			_, err := t.ResultWriter().Write([]byte("result"))
			return err
		}},
		{"an error after a result", func(_ context.Context, t *asynq.Task) error {
			_, _ = t.ResultWriter().Write([]byte("result"))
			return failed
		}},
		{"an empty result", func(_ context.Context, t *asynq.Task) error { _, err := t.ResultWriter().Write(nil); return err }},
		{"two results", func(_ context.Context, t *asynq.Task) error {
			_, _ = t.ResultWriter().Write([]byte("one"))
			_, err := t.ResultWriter().Write([]byte("two"))
			return err
		}},
	}
	kinds := []struct {
		name string
		opts []asynq.Option
	}{
		{"a task", nil},
		{"a task with MaxRetry(0)", []asynq.Option{asynq.MaxRetry(0)}},
		{"a task with MaxRetry(1)", []asynq.Option{asynq.MaxRetry(1)}},
		{"a task with Retention", []asynq.Option{asynq.Retention(time.Hour)}},
		{"a task with Unique", []asynq.Option{asynq.Unique(time.Hour)}},
		{"a task with Unique and Retention", []asynq.Option{asynq.Unique(time.Hour), asynq.Retention(time.Hour)}},
		{"a task with Unique and MaxRetry(0)", []asynq.Option{asynq.Unique(time.Hour), asynq.MaxRetry(0)}},
		{"a task with IsFailure false", nil},
	}
	for _, o := range outcomes {
		for _, k := range kinds {
			add("handler of "+k.name+" returns "+o.name, func(s *site) {
				cfg := config()
				if strings.HasSuffix(k.name, "IsFailure false") {
					cfg.IsFailure = func(error) bool { return false }
				}
				s.process(cfg, o.f, append([]asynq.Option{asynq.TaskID("1"), asynq.Timeout(time.Minute)}, k.opts...)...)
			})
		}
	}
	deadlines := func(now time.Time) map[string][]asynq.Option {
		return map[string][]asynq.Option{
			"nothing":                       nil,
			"Timeout(0)":                    {asynq.Timeout(0)},
			"Timeout(1h)":                   {asynq.Timeout(time.Hour)},
			"Timeout(0), Deadline(zero)":    {asynq.Timeout(0), asynq.Deadline(time.Time{})},
			"Deadline(2h)":                  {asynq.Deadline(now.Add(2 * time.Hour))},
			"Timeout(1h), Deadline(2h)":     {asynq.Timeout(time.Hour), asynq.Deadline(now.Add(2 * time.Hour))},
			"Timeout(3h), Deadline(2h)":     {asynq.Timeout(3 * time.Hour), asynq.Deadline(now.Add(2 * time.Hour))},
			"Deadline(an hour ago)":         {asynq.Deadline(now.Add(-time.Hour))},
			"Deadline(ago), MaxRetry(0)":    {asynq.Deadline(now.Add(-time.Hour)), asynq.MaxRetry(0)},
			"Deadline(epoch)":               {asynq.Deadline(time.Unix(0, 0))},
			"Timeout(1h), Deadline(1h ago)": {asynq.Timeout(time.Hour), asynq.Deadline(now.Add(-time.Hour))},
		}
	}
	for _, name := range sortedKeys(deadlines(time.Time{})) {
		add("handler of a task with "+name+": context", func(s *site) {
			s.process(config(), func(ctx context.Context, t *asynq.Task) error {
				deadline, ok := ctx.Deadline()
				s.see("has a deadline", ok)
				s.see("deadline", deadline)
				s.see("Err", fmt.Sprint(ctx.Err()))
				return ctx.Err()
			}, append([]asynq.Option{asynq.TaskID("1")}, deadlines(s.start)[name]...)...)
		})
	}
	add("handler: context and task", func(s *site) {
		type key struct{}
		cfg := config()
		cfg.BaseContext = func() context.Context { return context.WithValue(context.Background(), key{}, "value") }
		s.process(cfg, func(ctx context.Context, t *asynq.Task) error {
			id, ok := asynq.GetTaskID(ctx)
			s.see("GetTaskID", fmt.Sprint(id, ok))
			queue, ok := asynq.GetQueueName(ctx)
			s.see("GetQueueName", fmt.Sprint(queue, ok))
			n, ok := asynq.GetRetryCount(ctx)
			s.see("GetRetryCount", fmt.Sprint(n, ok))
			n, ok = asynq.GetMaxRetry(ctx)
			s.see("GetMaxRetry", fmt.Sprint(n, ok))
			s.see("BaseContext", ctx.Value(key{}))
			s.see("Type", t.Type())
			s.see("Payload", t.Payload())
			s.see("Headers", t.Headers())
			s.see("TaskID", t.ResultWriter().TaskID())
			n, err := t.ResultWriter().Write([]byte("four"))
			s.result(n, err)
			return nil
		}, asynq.TaskID("1"), asynq.MaxRetry(7), asynq.Queue("default"))
	})
	add("handler: two calls of ResultWriter are the same", func(s *site) {
		s.process(config(), func(_ context.Context, t *asynq.Task) error {
			first, second := t.ResultWriter(), t.ResultWriter()
			s.see("same", first == second)
			return nil
		}, asynq.TaskID("1"))
	})
	for _, err := range []error{nil, failed} {
		add(fmt.Sprintf("handler: changes payload and headers, and returns %v", err), func(s *site) {
			s.process(config(), func(_ context.Context, t *asynq.Task) error {
				t.Headers()["k"] = "changed"
				t.Payload()[0] = 'X'
				s.see("Headers", t.Headers())
				s.see("Payload", t.Payload())
				return err
			}, asynq.TaskID("1"), asynq.Retention(time.Hour))
		})
	}
	add("handler: an Enqueue within", func(s *site) {
		c := s.client()
		s.process(config(), func(ctx context.Context, t *asynq.Task) error {
			_, err := c.EnqueueContext(ctx, t, asynq.TaskID("2"), asynq.ProcessIn(time.Hour))
			return err
		}, asynq.TaskID("1"))
	})
	for _, d := range []time.Duration{-time.Hour, 0, 500 * time.Millisecond, 90 * time.Minute} {
		add(fmt.Sprintf("RetryDelayFunc returns %v", d), func(s *site) {
			cfg := config()
			cfg.DelayedTaskCheckInterval = time.Hour // the retry does not run within the row
			cfg.RetryDelayFunc = func(n int, err error, t *asynq.Task) time.Duration {
				s.see("n", n)
				s.see("err", err)
				s.see("type", t.Type())
				return d
			}
			runs := 0
			s.process(cfg, func(context.Context, *asynq.Task) error {
				if runs++; runs == 1 {
					return failed
				}
				return nil
			}, asynq.TaskID("1"), asynq.Retention(time.Hour))
			if d <= time.Second {
				s.noDump = true // the task may have run again
			}
		})
	}
	add("an unknown type in a ServeMux", func(s *site) {
		s.process(config(), asynq.NewServeMux().ProcessTask, asynq.TaskID("1"), asynq.MaxRetry(0))
	})
	add("a group that reaches its size", func(s *site) {
		cfg := config()
		cfg.GroupGracePeriod, cfg.GroupMaxSize = time.Second, 2
		type args struct {
			group string
			tasks []*asynq.Task
		}
		got := make(chan args, 10)
		cfg.GroupAggregator = asynq.GroupAggregatorFunc(func(group string, tasks []*asynq.Task) *asynq.Task {
			got <- args{group, tasks}
			return asynq.NewTask("aggregated", []byte("all"), asynq.TaskID("a"), asynq.Retention(time.Hour))
		})
		c := s.client()
		for _, id := range []string{"1", "2"} {
			_, err := c.Enqueue(asynq.NewTask("member", []byte(id)), asynq.TaskID(id), asynq.Group("g"))
			s.err(err)
		}
		srv := asynq.NewServer(s.opt(), cfg)
		s.err(srv.Start(asynq.HandlerFunc(nothing)))
		a := <-got
		s.see("group", a.group)
		for _, t := range a.tasks {
			s.see("member", t.Type()+" "+string(t.Payload()))
		}
		s.until("the task is done", func() bool {
			return s.redis.ZCard(context.Background(), queueKey("default", "completed")).Val() == 1
		})
		srv.Shutdown()
	})
	add("a group with members that are unique", func(s *site) {
		cfg := config()
		cfg.GroupGracePeriod, cfg.GroupMaxSize = time.Second, 2
		cfg.GroupAggregator = asynq.GroupAggregatorFunc(func(string, []*asynq.Task) *asynq.Task {
			return asynq.NewTask("aggregated", []byte("all"), asynq.TaskID("a"), asynq.Retention(time.Hour))
		})
		c := s.client()
		for _, id := range []string{"1", "2"} {
			_, err := c.Enqueue(asynq.NewTask("member", []byte(id)), asynq.TaskID(id), asynq.Group("g"), asynq.Unique(time.Hour))
			s.err(err)
		}
		srv := asynq.NewServer(s.opt(), cfg)
		s.err(srv.Start(asynq.HandlerFunc(nothing)))
		s.until("the task is done", func() bool {
			return s.redis.ZCard(context.Background(), queueKey("default", "completed")).Val() == 1
		})
		srv.Shutdown()
	})
}

// process enqueues a task, processes it once with a server, and records the arguments of callbacks.
func (s *site) process(cfg asynq.Config, f func(context.Context, *asynq.Task) error, opts ...asynq.Option) {
	ctx := context.Background()
	cfg.ErrorHandler = asynq.ErrorHandlerFunc(func(ctx context.Context, t *asynq.Task, err error) {
		s.see("ErrorHandler", err.Error())
		s.see("IsPanicError", asynq.IsPanicError(err))
		s.see("is SkipRetry", errors.Is(err, asynq.SkipRetry))
		s.see("task", t.Type()+" "+string(t.Payload()))
		id, ok := asynq.GetTaskID(ctx)
		s.see("GetTaskID in ErrorHandler", fmt.Sprint(id, ok))
		retried, _ := asynq.GetRetryCount(ctx)
		most, _ := asynq.GetMaxRetry(ctx)
		s.see("retries in ErrorHandler", fmt.Sprint(retried, most))
	})
	_, err := s.client().Enqueue(asynq.NewTaskWithHeaders("type", []byte("payload"), map[string]string{"k": "v"}), opts...)
	s.err(err)
	srv := asynq.NewServer(s.opt(), cfg)
	s.err(srv.Start(asynq.HandlerFunc(f)))
	s.until("the task is done", func() bool {
		state, err := s.redis.HGet(ctx, queueKey("default", "t:1"), "state").Result()
		return err != nil || state != "pending" && state != "active"
	})
	srv.Shutdown()
}

// noMap is nil. A write to it panics in the runtime.
var noMap map[string]int
