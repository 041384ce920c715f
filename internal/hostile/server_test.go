package hostile_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
)

// extremes are configurations with the smallest and largest values of their types.
var extremes = map[string]asynq.Config{
	"least": {
		Concurrency: math.MinInt, TaskCheckInterval: mostNegative, Queues: map[string]int{"extreme": 1, "low": math.MinInt, "": 1, "}": 1, notUTF8: 1},
		LogLevel: math.MinInt32, ShutdownTimeout: mostNegative, HealthCheckInterval: mostNegative, DelayedTaskCheckInterval: mostNegative,
		GroupGracePeriod: mostNegative, GroupMaxDelay: mostNegative, GroupMaxSize: math.MinInt, JanitorInterval: mostNegative,
		JanitorBatchSize: math.MinInt, LeaseDuration: mostNegative, StuckGracePeriod: mostNegative, AttemptLog: math.MinInt,
		QueueConcurrency: map[string]int{"extreme": math.MinInt, "": math.MinInt},
		QueueConfigs: map[string]asynq.QueueConfig{"": {}, "extreme": {
			Concurrency: math.MinInt, Group: asynq.GroupConfig{GracePeriod: mostNegative, MaxDelay: mostNegative, MaxSize: math.MinInt},
		}},
	},
	"most": {
		Concurrency: math.MaxInt, TaskCheckInterval: longest, Queues: map[string]int{"extreme": math.MaxInt, "low": math.MaxInt}, StrictPriority: true,
		LogLevel: math.MaxInt32, ShutdownTimeout: longest, HealthCheckInterval: longest, DelayedTaskCheckInterval: longest,
		GroupGracePeriod: longest, GroupMaxDelay: longest, GroupMaxSize: math.MaxInt, JanitorInterval: longest,
		JanitorBatchSize: math.MaxInt, LeaseDuration: longest, StuckGracePeriod: longest, AttemptLog: math.MaxInt,
		QueueConcurrency: map[string]int{"extreme": math.MaxInt},
		QueueConfigs: map[string]asynq.QueueConfig{"extreme": {
			Concurrency: math.MaxInt, Group: asynq.GroupConfig{GracePeriod: longest, MaxDelay: longest, MaxSize: math.MaxInt},
		}},
	},
	"shared": {Concurrency: 10, Queues: map[string]int{"extreme": math.MaxInt, "low": math.MaxInt / 2}},
}

func nothing(context.Context, *asynq.Task) error { return nil }

// idle is a configuration whose queue has no tasks.
var idle = asynq.Config{Queues: map[string]int{"idle": 1}}

var hostileServer = map[string]func(h *hostile){
	"NewServer": func(h *hostile) {
		h.wantPanic("RedisConnOpt is nil", func() { asynq.NewServer(nil, asynq.Config{}) })
		for _, namespace := range []string{" ", "{", "a}b", notUTF8} {
			h.wantPanic("namespace", func() { asynq.NewServer(h.Opt(), asynq.Config{Namespace: namespace}) })
		}
		h.wantPanic("GroupGracePeriod must be at least 1 s", func() { asynq.NewServer(h.Opt(), asynq.Config{GroupGracePeriod: time.Millisecond}) })
		h.wantPanic("must be at least 1 s", func() {
			asynq.NewServer(h.Opt(), asynq.Config{QueueConfigs: map[string]asynq.QueueConfig{"q": {Group: asynq.GroupConfig{GracePeriod: time.Millisecond}}}})
		})
		h.wantPanic("QueueConcurrency is 2, but QueueConfigs sets Concurrency to 3", func() {
			asynq.NewServer(h.Opt(), asynq.Config{QueueConcurrency: map[string]int{"q": 2}, QueueConfigs: map[string]asynq.QueueConfig{"q": {Concurrency: 3}}})
		})
		h.wantPanic("must be 0 or 1, not 2", func() {
			asynq.NewServer(h.Opt(), asynq.Config{QueueConcurrency: map[string]int{"q": 2}, QueueConfigs: map[string]asynq.QueueConfig{"q": {Ordered: true}}})
		})
		for words, cfg := range map[string]asynq.Config{
			"Archive.MaxTasks is -1":               {Archive: asynq.ArchiveConfig{MaxTasks: -1}},
			"Archive.MaxAge is -1ns":               {Archive: asynq.ArchiveConfig{MaxAge: -1}},
			`queue "q": Archive.MaxTasks is -1: i`: {QueueConfigs: map[string]asynq.QueueConfig{"q": {Archive: asynq.ArchiveConfig{MaxTasks: -1}}}},
		} {
			h.wantPanic(words, func() { asynq.NewServer(h.Opt(), cfg) })
		}
		for name, cfg := range extremes {
			h.serveExtreme(name, cfg)
		}
		h.serveFailing("BaseContext returned nil", func() context.Context { return nil })
		h.serveFailing("deadline exceeded", nil, asynq.Deadline(yearZero))
		h.serveFailing("deadline exceeded", nil, asynq.Deadline(time.Unix(-1, 0)), asynq.Timeout(longest))
	},
	"NewServerFromRedisClient": func(h *hostile) {
		h.wantPanic("returned nil", func() { asynq.NewServerFromRedisClient(nil, asynq.Config{}) })
	},
	"Server.Start": func(h *hostile) {
		srv := asynq.NewServerFromRedisClient(h.RDB, idle)
		for _, handler := range []asynq.Handler{nil, asynq.HandlerFunc(nil), (*asynq.ServeMux)(nil)} {
			h.wantErr(srv.Start(handler), nil, "without a handler")
			h.wantErr(srv.Run(handler), nil, "without a handler")
		}
		h.noErr(srv.Start(asynq.HandlerFunc(nothing)))
		srv.Shutdown()
		h.wantErr(srv.Start(asynq.HandlerFunc(nothing)), asynq.ErrServerClosed)
	},
	"Server.Run": func(h *hostile) {
		srv := asynq.NewServerFromRedisClient(h.RDB, idle)
		h.noErr(srv.Start(asynq.HandlerFunc(nothing)))
		srv.Shutdown()
		h.wantErr(srv.Run(asynq.HandlerFunc(nothing)), asynq.ErrServerClosed)
	},
	"Server.SetConcurrency": func(h *hostile) {
		srv := asynq.NewServer(h.Opt(), idle)
		for _, n := range []int{math.MinInt, -1, 0, 1_000_001, math.MaxInt} {
			h.wantErr(srv.SetConcurrency(n), nil, "from 1 to 1,000,000")
		}
		h.noErr(srv.SetConcurrency(1_000_000))
	},
	"Server.PauseQueue": func(h *hostile) {
		srv := asynq.NewServer(h.Opt(), idle)
		for _, queue := range missingNames() {
			h.wantErr(srv.PauseQueue(queue), nil, "does not process queue")
		}
		h.noErr(srv.PauseQueue("idle"))
		h.noErr(srv.PauseQueue("idle"))
	},
	"Server.ResumeQueue": func(h *hostile) {
		srv := asynq.NewServer(h.Opt(), idle)
		for _, queue := range missingNames() {
			h.wantErr(srv.ResumeQueue(queue), nil, "does not process queue")
		}
		h.noErr(srv.ResumeQueue("idle"))
	},
	"Server.Done": func(h *hostile) {
		srv := asynq.NewServer(h.Opt(), idle)
		srv.Shutdown() // it was not started: nothing happens
		select {
		case <-srv.Done():
			h.check(false, "a server that was not started is done")
		default:
		}
	},
	"Server.Stop": func(h *hostile) {
		srv := asynq.NewServerFromRedisClient(h.RDB, asynq.Config{})
		srv.Stop()
		srv.Shutdown()
		srv.Stop()
	},
	"Server.Shutdown": func(h *hostile) {
		srv := asynq.NewServerFromRedisClient(h.RDB, asynq.Config{ShutdownTimeout: mostNegative})
		srv.Shutdown()
		srv.Shutdown()
	},
	"Server.ShutdownContext": func(h *hostile) {
		srv := asynq.NewServerFromRedisClient(h.RDB, asynq.Config{})
		h.wantErr(srv.ShutdownContext(noContext), nil, "ctx must not be nil")
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		h.noErr(srv.ShutdownContext(ctx))
	},
	"Server.Ping": func(h *hostile) {
		srv := asynq.NewServerFromRedisClient(h.RDB, idle)
		h.noErr(srv.Ping())
		srv.Shutdown()
		h.noErr(srv.Ping()) // Shutdown before Start has no effect
		h.noErr(srv.Start(asynq.HandlerFunc(nothing)))
		srv.Shutdown()
		h.wantErr(srv.Ping(), asynq.ErrServerClosed)
	},
}

// serveExtreme processes tasks under an extreme configuration, with extreme errors and delays.
func (h *hostile) serveExtreme(name string, cfg asynq.Config) {
	h.T.Helper()
	outcomes := map[string]error{
		"nil": nil, "longest": asynq.RetryAfter(longest), "snooze": asynq.Snooze(longest), "func": errors.New(hugeName + notUTF8),
		"no context": nil, "skip": asynq.SkipRetry,
	}
	cfg.RetryDelayFunc = func(int, error, *asynq.Task) time.Duration { return longest }
	h.Client = h.newClient()
	for id := range outcomes {
		h.Enqueue(id, asynq.Queue("extreme"), asynq.Retention(longest), asynq.Timeout(longest), asynq.MaxRetry(math.MaxInt))
	}
	srv := h.Serve(cfg, func(_ context.Context, task *asynq.Task) error {
		if _, err := task.ResultWriter().Write(nil); err != nil {
			return err
		}
		return outcomes[task.Type()]
	})
	want := map[string]asynq.TaskState{
		"nil": asynq.TaskStateCompleted, "longest": asynq.TaskStateRetry, "snooze": asynq.TaskStateRetry, "func": asynq.TaskStateRetry,
		"no context": asynq.TaskStateCompleted, "skip": asynq.TaskStateArchived,
	}
	for id, state := range want {
		h.Eventually(func() bool {
			info, err := h.inspect.GetTaskInfo("extreme", id)
			return err == nil && info.State == state
		}, "task %q of the %s configuration to be %v", id, name, state)
		info, err := h.inspect.GetTaskInfo("extreme", id)
		h.noErr(err)
		if state == asynq.TaskStateRetry {
			h.check(time.Until(info.NextProcessAt) > 200*365*24*time.Hour, "task %q will be retried at %v", id, info.NextProcessAt)
		}
	}
	h.Eventually(func() bool {
		servers, err := h.inspect.Servers()
		return err == nil && len(servers) == 1
	}, "the server to be listed")
	h.noErr(srv.ShutdownContext(context.Background()))
	for _, queue := range []string{"extreme", "low"} {
		if err := h.inspect.DeleteQueue(queue, true); !errors.Is(err, asynq.ErrQueueNotFound) {
			h.noErr(err)
		}
	}
}

// serveFailing processes a task whose attempt must fail before its handler is called.
func (h *hostile) serveFailing(words string, base func() context.Context, opts ...asynq.Option) {
	h.T.Helper()
	h.Client = h.newClient()
	h.Enqueue("failing", append(opts, asynq.Queue("extreme"))...)
	srv := h.Serve(asynq.Config{Queues: map[string]int{"extreme": 1}, BaseContext: base}, nothing)
	var info *asynq.TaskInfo
	h.Eventually(func() bool {
		var err error
		info, err = h.inspect.GetTaskInfo("extreme", "failing")
		return err == nil && info.State == asynq.TaskStateRetry
	}, "the attempt to fail with %q", words)
	h.check(strings.Contains(info.LastErr, words), "the last error is %q", info.LastErr)
	srv.Shutdown()
	h.noErr(h.inspect.DeleteQueue("extreme", true))
}
