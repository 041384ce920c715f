package main

import (
	"context"
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
