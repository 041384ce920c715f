package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"strings"
	"time"

	"github.com/hibiken/asynq"
)

// quiet is a logger that discards messages.
type quiet struct{ *log.Logger }

func newQuiet() asynq.Logger { return quiet{log.New(io.Discard, "", 0)} }

func (q quiet) Debug(...any) {}
func (q quiet) Info(...any)  {}
func (q quiet) Warn(...any)  {}
func (q quiet) Error(...any) {}
func (q quiet) Fatal(...any) {}

// config returns the configuration of a server that polls often and stops soon.
func config() asynq.Config {
	return asynq.Config{
		Concurrency: 2, Logger: newQuiet(), TaskCheckInterval: 50 * time.Millisecond, DelayedTaskCheckInterval: 100 * time.Millisecond,
		ShutdownTimeout: time.Second, RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Hour },
	}
}

func nothing(context.Context, *asynq.Task) error { return nil }

// sequences returns all sequences of up to three of the steps.
func sequences(steps ...string) (all [][]string) {
	last := [][]string{nil}
	for range 3 {
		var next [][]string
		for _, s := range last {
			for _, step := range steps {
				next = append(next, append(append([]string(nil), s...), step))
			}
		}
		all, last = append(all, next...), next
	}
	return all
}

func addServerRows() {
	for _, steps := range sequences("Start", "Stop", "Shutdown", "Ping") {
		add("Server: "+strings.Join(steps, ", "), func(s *site) {
			s.noDump = true
			srv := asynq.NewServer(s.opt(), config())
			for i, step := range steps {
				s.at(fmt.Sprintf("%d", i+1))
				s.guard("", func() {
					switch step {
					case "Start":
						s.err(srv.Start(asynq.HandlerFunc(nothing)))
					case "Stop":
						srv.Stop()
					case "Shutdown":
						srv.Shutdown()
					case "Ping":
						s.err(srv.Ping())
					}
				})
			}
		})
	}
	start := func(text string, h asynq.Handler) {
		add("Server.Start("+text+")", func(s *site) {
			s.noDump = true
			srv := asynq.NewServer(s.opt(), config())
			s.err(srv.Start(h))
			s.at("shutdown")
			srv.Shutdown()
		})
	}
	start("nil", nil)
	start("a handler", asynq.HandlerFunc(nothing))
	start("a ServeMux", asynq.NewServeMux())
	add("Server.Start, Redis down", func(s *site) {
		srv := asynq.NewServer(asynq.RedisClientOpt{Addr: unreachable}, config())
		s.err(srv.Start(asynq.HandlerFunc(nothing)))
		s.at("shutdown")
		srv.Shutdown()
	})
	add("Server.Ping, Redis down", func(s *site) {
		s.err(asynq.NewServer(asynq.RedisClientOpt{Addr: unreachable}, config()).Ping())
	})
	add("Server, Start and Shutdown: Redis", func(s *site) {
		srv := asynq.NewServer(s.opt(), config())
		s.err(srv.Start(asynq.HandlerFunc(nothing)))
		srv.Shutdown()
	})
	configs := map[string]func(c *asynq.Config){
		"zero":                         func(c *asynq.Config) { *c = asynq.Config{Logger: newQuiet(), TaskCheckInterval: c.TaskCheckInterval} },
		"Concurrency: -1":              func(c *asynq.Config) { c.Concurrency = -1 },
		"Queues: {}":                   func(c *asynq.Config) { c.Queues = map[string]int{} },
		"Queues: {q: 0}":               func(c *asynq.Config) { c.Queues = map[string]int{"q": 0} },
		"Queues: {q: -1}":              func(c *asynq.Config) { c.Queues = map[string]int{"q": -1} },
		"Queues: {q: 0, default: 1}":   func(c *asynq.Config) { c.Queues = map[string]int{"q": 0, "default": 1} },
		`Queues: {"": 1}`:              func(c *asynq.Config) { c.Queues = map[string]int{"": 1} },
		`Queues: {" ": 1, default: 1}`: func(c *asynq.Config) { c.Queues = map[string]int{" ": 1, "default": 1} },
		`Queues: {"A": 2, default: 1}`: func(c *asynq.Config) { c.Queues = map[string]int{"A": 2, "default": 1} },
		"StrictPriority":               func(c *asynq.Config) { c.StrictPriority = true },
		"negative intervals": func(c *asynq.Config) {
			c.TaskCheckInterval, c.DelayedTaskCheckInterval, c.HealthCheckInterval = -1, -1, -1
		},
		"ShutdownTimeout: -1":           func(c *asynq.Config) { c.ShutdownTimeout = -1 },
		"GroupGracePeriod: 500ms":       func(c *asynq.Config) { c.GroupGracePeriod = 500 * time.Millisecond },
		"GroupGracePeriod: -1":          func(c *asynq.Config) { c.GroupGracePeriod = -1 },
		"GroupMaxDelay: -1":             func(c *asynq.Config) { c.GroupMaxDelay = -1 },
		"GroupMaxSize: -1":              func(c *asynq.Config) { c.GroupMaxSize = -1 },
		"JanitorInterval: -1":           func(c *asynq.Config) { c.JanitorInterval = -1 },
		"JanitorBatchSize: -1":          func(c *asynq.Config) { c.JanitorBatchSize = -1 },
		"JanitorBatchSize: 1000":        func(c *asynq.Config) { c.JanitorBatchSize = 1000 },
		"LogLevel: 99":                  func(c *asynq.Config) { c.LogLevel = 99 },
		"LogLevel: -1":                  func(c *asynq.Config) { c.LogLevel = -1 },
		"BaseContext returns nil":       func(c *asynq.Config) { c.BaseContext = func() context.Context { return nil } },
		"RetryDelayFunc: nil":           func(c *asynq.Config) { c.RetryDelayFunc = nil },
		"ErrorHandlerFunc(nil)":         func(c *asynq.Config) { c.ErrorHandler = asynq.ErrorHandlerFunc(nil) },
		"IsFailure: nil":                func(c *asynq.Config) { c.IsFailure = nil },
		"HealthCheckFunc without any":   func(c *asynq.Config) { c.HealthCheckFunc = nil },
		"GroupAggregator, GroupMaxSize": func(c *asynq.Config) { c.GroupMaxSize = 1 },
	}
	for _, name := range sortedKeys(configs) {
		newServer := func(s *site) *asynq.Server {
			c := config()
			configs[name](&c)
			return asynq.NewServer(s.opt(), c)
		}
		add("NewServer({"+name+"})", func(s *site) {
			s.noDump = true
			newServer(s)
			s.see("panics", false)
		})
		if strings.HasPrefix(name, "negative") || strings.HasPrefix(name, "JanitorInterval") || strings.HasPrefix(name, "LogLevel") {
			continue // zero intervals: the behavior of the reference depends on timing
		}
		// The published server info shows the queues, their priorities and the concurrency.
		add("Server({"+name+"}) as Inspector.Servers shows it", func(s *site) {
			s.noDump = true
			srv := newServer(s)
			s.err(srv.Start(asynq.HandlerFunc(nothing)))
			i := s.inspector()
			var servers []*asynq.ServerInfo
			s.until("the server is seen", func() bool {
				var err error
				servers, err = i.Servers()
				return err != nil || len(servers) > 0
			})
			if name == "zero" && len(servers) == 1 {
				s.see("concurrency > 0", servers[0].Concurrency > 0)
				servers[0].Concurrency = 0
			}
			s.see("servers", servers)
			s.at("shutdown")
			srv.Shutdown()
			s.result(i.Servers())
		})
	}
	add("NewServer(nil)", func(s *site) { s.see("is nil", asynq.NewServer(nil, config()) == nil) })
	add("NewServer(an option that makes no client)", func(s *site) { s.see("is nil", asynq.NewServer(strange{}, config()) == nil) })
	add("NewServerFromRedisClient(nil)", func(s *site) { s.see("is nil", asynq.NewServerFromRedisClient(nil, config()) == nil) })
	add("NewServerFromRedisClient, Start, Shutdown", func(s *site) {
		srv := asynq.NewServerFromRedisClient(s.redis, config())
		s.err(srv.Start(asynq.HandlerFunc(nothing)))
		s.guard("shutdown ", srv.Shutdown)
		s.see("Redis", s.redis.Ping(context.Background()).Err())
	})
	add("HealthCheckFunc", func(s *site) {
		s.noDump = true
		c := config()
		got := make(chan error, 100)
		c.HealthCheckInterval = 50 * time.Millisecond
		c.HealthCheckFunc = func(err error) {
			select {
			case got <- err:
			default:
			}
		}
		srv := asynq.NewServer(s.opt(), c)
		s.err(srv.Start(asynq.HandlerFunc(nothing)))
		s.at("check")
		s.err(<-got)
		srv.Shutdown()
	})
	add("Stop: no new tasks", func(s *site) {
		c := s.client()
		srv := asynq.NewServer(s.opt(), config())
		ran := make(chan string, 10)
		s.err(srv.Start(asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error { ran <- t.Type(); return nil })))
		_, err := c.Enqueue(asynq.NewTask("first", nil), asynq.TaskID("1"))
		s.err(err)
		s.see("ran", <-ran)
		srv.Stop()
		_, err = c.Enqueue(asynq.NewTask("second", nil), asynq.TaskID("2"))
		s.err(err)
		srv.Shutdown()
		s.see("more", len(ran))
	})
	add("Shutdown with an active handler", func(s *site) {
		c := s.client()
		cfg := config()
		cfg.ShutdownTimeout = 200 * time.Millisecond
		srv := asynq.NewServer(s.opt(), cfg)
		started, end := make(chan struct{}, 10), make(chan struct{})
		s.cleanup(func() { close(end) })
		s.err(srv.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { started <- struct{}{}; <-end; return nil })))
		_, err := c.Enqueue(asynq.NewTask("t", nil), asynq.TaskID("1"))
		s.err(err)
		<-started
		srv.Shutdown()
	})
	add("CancelProcessing of an active task", func(s *site) {
		c, i := s.client(), s.inspector()
		srv := asynq.NewServer(s.opt(), config())
		ended := make(chan error, 10)
		s.err(srv.Start(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error { <-ctx.Done(); ended <- ctx.Err(); return ctx.Err() })))
		id := fmt.Sprintf("cancel-%d", s.db)
		_, err := c.Enqueue(asynq.NewTask("t", nil), asynq.TaskID(id), asynq.Queue("default"))
		s.err(err)
		var got error
		s.until("the handler ends", func() bool {
			_ = i.CancelProcessing(id)
			select {
			case got = <-ended:
				return true
			default:
				return false
			}
		})
		s.at("context")
		s.err(got)
		s.until("the task is in retry", func() bool {
			return s.redis.ZCard(context.Background(), queueKey("default", "retry")).Val() == 1
		})
		srv.Shutdown()
		info, err := i.GetTaskInfo("default", id)
		s.at("task")
		s.err(err)
		if info != nil {
			s.see("state", info.State)
			s.see("last error", info.LastErr)
			s.see("retried", info.Retried)
		}
		s.noDump = true
	})
	add("a paused queue is not processed", func(s *site) {
		c, i := s.client(), s.inspector()
		_, err := c.Enqueue(asynq.NewTask("paused", nil), asynq.TaskID("1"), asynq.Queue("low"))
		s.err(err)
		s.err(i.PauseQueue("low"))
		cfg := config()
		cfg.Queues = map[string]int{"low": 10, "default": 1}
		ran := make(chan string, 10)
		srv := asynq.NewServer(s.opt(), cfg)
		s.err(srv.Start(asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error { ran <- t.Type(); return nil })))
		_, err = c.Enqueue(asynq.NewTask("t", nil), asynq.TaskID("2"))
		s.err(err)
		s.see("ran", <-ran)
		srv.Shutdown()
		s.see("more", len(ran))
	})
	for _, strict := range []bool{false, true} {
		add(fmt.Sprintf("order of tasks, StrictPriority: %t", strict), func(s *site) {
			c := s.client()
			for _, n := range []string{"1", "2", "3"} {
				for _, queue := range []string{"high", "low"} {
					_, err := c.Enqueue(asynq.NewTask(queue+n, nil), asynq.Queue(queue))
					s.err(err)
				}
			}
			cfg := config()
			cfg.Concurrency, cfg.StrictPriority, cfg.Queues = 1, strict, map[string]int{"high": 2, "low": 1}
			ran := make(chan string, 10)
			srv := asynq.NewServer(s.opt(), cfg)
			s.err(srv.Start(asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error { ran <- t.Type(); return nil })))
			var high, low, all []string
			for range 6 {
				name := <-ran
				all = append(all, name)
				if strings.HasPrefix(name, "high") {
					high = append(high, name)
				} else {
					low = append(low, name)
				}
			}
			srv.Shutdown()
			s.see("high", high)
			s.see("low", low)
			if strict {
				s.see("all", all)
			}
		})
	}
}

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
