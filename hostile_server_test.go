package asynq_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
)

// extremes are configurations at both ends of what their types can hold.
var extremes = map[string]asynq.Config{
	"least": {
		Concurrency: math.MinInt, TaskCheckInterval: mostNegtive, Queues: map[string]int{"extreme": 1, "low": math.MinInt, "": 1, "}": 1, notUTF8: 1},
		LogLevel: math.MinInt32, ShutdownTimeout: mostNegtive, HealthCheckInterval: mostNegtive, DelayedTaskCheckInterval: mostNegtive,
		GroupGracePeriod: mostNegtive, GroupMaxDelay: mostNegtive, GroupMaxSize: math.MinInt, JanitorInterval: mostNegtive,
		JanitorBatchSize: math.MinInt, LeaseDuration: mostNegtive, StuckGracePeriod: mostNegtive,
		QueueConcurrency: map[string]int{"extreme": math.MinInt, "": math.MinInt},
		GroupConfigs:     map[string]asynq.GroupConfig{"": {}, "extreme": {GracePeriod: mostNegtive, MaxDelay: mostNegtive, MaxSize: math.MinInt}},
	},
	"most": {
		Concurrency: math.MaxInt, TaskCheckInterval: longest, Queues: map[string]int{"extreme": math.MaxInt, "low": math.MaxInt}, StrictPriority: true,
		LogLevel: math.MaxInt32, ShutdownTimeout: longest, HealthCheckInterval: longest, DelayedTaskCheckInterval: longest,
		GroupGracePeriod: longest, GroupMaxDelay: longest, GroupMaxSize: math.MaxInt, JanitorInterval: longest,
		JanitorBatchSize: math.MaxInt, LeaseDuration: longest, StuckGracePeriod: longest,
		QueueConcurrency: map[string]int{"extreme": math.MaxInt},
		GroupConfigs:     map[string]asynq.GroupConfig{"extreme": {GracePeriod: longest, MaxDelay: longest, MaxSize: math.MaxInt}},
	},
	"shared": {Concurrency: 10, Queues: map[string]int{"extreme": math.MaxInt, "low": math.MaxInt / 2}},
}

func nothing(context.Context, *asynq.Task) error { return nil }

var hostileServer = map[string]func(h *hostile){
	"NewServer": func(h *hostile) {
		h.panics("RedisConnOpt is nil", func() { asynq.NewServer(nil, asynq.Config{}) })
		for _, namespace := range []string{" ", "{", "a}b", notUTF8} {
			h.panics("namespace", func() { asynq.NewServer(h.opt(), asynq.Config{Namespace: namespace}) })
		}
		h.panics("GroupGracePeriod must be at least 1 s", func() { asynq.NewServer(h.opt(), asynq.Config{GroupGracePeriod: 1}) })
		h.panics("must be at least 1 s", func() {
			asynq.NewServer(h.opt(), asynq.Config{GroupConfigs: map[string]asynq.GroupConfig{"q": {GracePeriod: 1}}})
		})
		for name, cfg := range extremes {
			h.extreme(name, cfg)
		}
		h.failing("BaseContext returned nil", func() context.Context { return nil })
		h.failing("deadline exceeded", nil, asynq.Deadline(yearZero))
		h.failing("deadline exceeded", nil, asynq.Deadline(time.Unix(-1, 0)), asynq.Timeout(longest))
	},
	"NewServerFromRedisClient": func(h *hostile) {
		h.panics("returned nil", func() { asynq.NewServerFromRedisClient(nil, asynq.Config{}) })
	},
	"Server.Start": func(h *hostile) {
		srv := asynq.NewServerFromRedisClient(h.redis, asynq.Config{})
		for _, handler := range []asynq.Handler{nil, asynq.HandlerFunc(nil), (*asynq.ServeMux)(nil)} {
			h.refused(srv.Start(handler), nil, "without a handler")
			h.refused(srv.Run(handler), nil, "without a handler")
		}
		srv.Shutdown()
		h.refused(srv.Start(asynq.HandlerFunc(nothing)), asynq.ErrServerClosed)
	},
	"Server.Run": func(h *hostile) {
		srv := asynq.NewServerFromRedisClient(h.redis, asynq.Config{})
		srv.Shutdown()
		h.refused(srv.Run(asynq.HandlerFunc(nothing)), asynq.ErrServerClosed)
	},
	"Server.Stop": func(h *hostile) {
		srv := asynq.NewServerFromRedisClient(h.redis, asynq.Config{})
		srv.Stop()
		srv.Shutdown()
		srv.Stop()
	},
	"Server.Shutdown": func(h *hostile) {
		srv := asynq.NewServerFromRedisClient(h.redis, asynq.Config{ShutdownTimeout: mostNegtive})
		srv.Shutdown()
		srv.Shutdown()
	},
	"Server.ShutdownContext": func(h *hostile) {
		srv := asynq.NewServerFromRedisClient(h.redis, asynq.Config{})
		h.refused(srv.ShutdownContext(noContext), nil, "ctx must not be nil")
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		h.taken(srv.ShutdownContext(ctx))
	},
	"Server.Ping": func(h *hostile) {
		srv := asynq.NewServerFromRedisClient(h.redis, asynq.Config{})
		h.taken(srv.Ping())
		srv.Shutdown()
		h.refused(srv.Ping(), asynq.ErrServerClosed)
	},
}

// extreme has a server with a configuration process tasks, with errors and delays as extreme.
func (h *hostile) extreme(name string, cfg asynq.Config) {
	h.t.Helper()
	outcomes := map[string]error{
		"nil": nil, "longest": asynq.RetryAfter(longest), "snooze": asynq.Snooze(longest), "func": errors.New(hugeName + notUTF8),
		"no context": nil, "skip": asynq.SkipRetry,
	}
	cfg.RetryDelayFunc = func(int, error, *asynq.Task) time.Duration { return longest }
	h.client = h.newClient()
	for id := range outcomes {
		h.enqueue(id, asynq.Queue("extreme"), asynq.Retention(longest), asynq.Timeout(longest), asynq.MaxRetry(math.MaxInt))
	}
	srv := h.serve(cfg, func(_ context.Context, task *asynq.Task) error {
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
		h.eventually(func() bool {
			info, err := h.inspect.GetTaskInfo("extreme", id)
			return err == nil && info.State == state
		}, "task %q of the %s configuration to be %v", id, name, state)
		info, err := h.inspect.GetTaskInfo("extreme", id)
		h.taken(err)
		if state == asynq.TaskStateRetry {
			h.want(time.Until(info.NextProcessAt) > 200*365*24*time.Hour, "task %q is to be tried again at %v", id, info.NextProcessAt)
		}
	}
	h.eventually(func() bool {
		servers, err := h.inspect.Servers()
		return err == nil && len(servers) == 1
	}, "the server to tell of itself")
	h.taken(srv.ShutdownContext(context.Background()))
	for _, queue := range []string{"extreme", "low"} {
		if err := h.inspect.DeleteQueue(queue, true); !errors.Is(err, asynq.ErrQueueNotFound) {
			h.taken(err)
		}
	}
}

// failing has a server process a task whose attempt must fail before its handler is called.
func (h *hostile) failing(words string, base func() context.Context, opts ...asynq.Option) {
	h.t.Helper()
	h.client = h.newClient()
	h.enqueue("failing", append(opts, asynq.Queue("extreme"))...)
	srv := h.serve(asynq.Config{Queues: map[string]int{"extreme": 1}, BaseContext: base}, nothing)
	var info *asynq.TaskInfo
	h.eventually(func() bool {
		var err error
		info, err = h.inspect.GetTaskInfo("extreme", "failing")
		return err == nil && info.State == asynq.TaskStateRetry
	}, "the attempt to fail with %q", words)
	h.want(strings.Contains(info.LastErr, words), "the error is %q", info.LastErr)
	srv.Shutdown()
	h.taken(h.inspect.DeleteQueue("extreme", true))
}
