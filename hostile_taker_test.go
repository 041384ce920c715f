package asynq_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
)

// tokens that nobody holds a lease under, some of which scripts would take apart if they got them.
var hostileTokens = []string{"", " ", "*1", "a*1 b*1", "ABC", "a-1-zzzzzzzzzzzzzzzzzz", strings.Repeat("t", 1000), notUTF8, "ünï", "-", "--"}

// taking calls f with a Taker that works, and looks after a queue of its own.
func (h *hostile) taking(name string, f func(t *asynq.Taker)) {
	t := asynq.NewTaker(h.opt(), asynq.TakerConfig{Queues: map[string]int{name: 1}, Logger: discard{}})
	h.taken(t.Start())
	f(t)
	h.taken(t.ShutdownContext(context.Background()))
	h.taken(h.redis.SRem(context.Background(), "asynq:queues", name).Err())
}

// discard is a Logger.
type discard struct{}

func (discard) Debug(...any) {}
func (discard) Info(...any)  {}
func (discard) Warn(...any)  {}
func (discard) Error(...any) {}
func (discard) Fatal(...any) {}

// noLease calls f with leases that there are not.
func (h *hostile) noLease(f func(l *asynq.Lease)) {
	h.taking("taken", func(t *asynq.Taker) {
		for _, token := range hostileTokens {
			f(t.Lease("default", "pending", token))
			f(t.Lease("default", "later", token))
		}
		for _, name := range []string{"", "}", notUTF8, "clo}sing"} {
			f(t.Lease(name, "pending", "a-1"))
		}
		f(t.Lease("default", "", "a-1"))
	})
}

var hostileTaker = map[string]func(h *hostile){
	"NewTaker": func(h *hostile) {
		h.panics("RedisConnOpt is nil", func() { asynq.NewTaker(nil, asynq.TakerConfig{}) })
		h.panics("namespace", func() { asynq.NewTaker(h.opt(), asynq.TakerConfig{Namespace: "{"}) })
		for _, cfg := range []asynq.TakerConfig{
			{Queues: map[string]int{"extreme": math.MinInt, "": 1, "}": 1, notUTF8: 1}, QueueConcurrency: map[string]int{"": math.MinInt},
				LeaseDuration: mostNegtive, TaskCheckInterval: mostNegtive, DelayedTaskCheckInterval: mostNegtive, JanitorInterval: mostNegtive,
				JanitorBatchSize: math.MinInt, LogLevel: math.MinInt32, ShutdownTimeout: mostNegtive},
			{Queues: map[string]int{"extreme": math.MaxInt}, QueueConcurrency: map[string]int{"extreme": math.MaxInt},
				LeaseDuration: longest, TaskCheckInterval: longest, DelayedTaskCheckInterval: longest, JanitorInterval: longest,
				JanitorBatchSize: math.MaxInt, LogLevel: math.MaxInt32, ShutdownTimeout: longest},
		} {
			cfg.Logger = discard{}
			t := asynq.NewTaker(h.opt(), cfg)
			t.Shutdown()
		}
	},
	"NewTakerFromRedisClient": func(h *hostile) {
		h.panics("returned nil", func() { asynq.NewTakerFromRedisClient(nil, asynq.TakerConfig{}) })
	},
	"Taker.Start": func(h *hostile) {
		h.taking("taken", func(t *asynq.Taker) { h.refused(t.Start(), nil, "already running") })
		t := asynq.NewTakerFromRedisClient(h.redis, asynq.TakerConfig{})
		t.Shutdown()
		h.refused(t.Start(), asynq.ErrTakerClosed)
	},
	"Taker.Ping": func(h *hostile) {
		t := asynq.NewTakerFromRedisClient(h.redis, asynq.TakerConfig{})
		h.taken(t.Ping())
		t.Shutdown()
		h.refused(t.Ping(), asynq.ErrTakerClosed)
	},
	"Taker.Shutdown": func(h *hostile) {
		t := asynq.NewTakerFromRedisClient(h.redis, asynq.TakerConfig{ShutdownTimeout: mostNegtive})
		t.Shutdown()
		t.Shutdown()
	},
	"Taker.ShutdownContext": func(h *hostile) {
		t := asynq.NewTakerFromRedisClient(h.redis, asynq.TakerConfig{})
		h.refused(t.ShutdownContext(noContext), nil, "ctx must not be nil")
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		h.taken(t.ShutdownContext(ctx))
	},
	"Taker.SetQueues": func(h *hostile) {
		t := asynq.NewTakerFromRedisClient(h.redis, asynq.TakerConfig{})
		h.taken(t.SetQueues(nil, nil))
		h.taken(t.SetQueues(map[string]int{"": 1, "}": 1, notUTF8: 1, "x": math.MinInt}, map[string]int{"": math.MinInt, "x": math.MaxInt}))
		t.Shutdown()
		h.refused(t.SetQueues(nil, nil), asynq.ErrTakerClosed)
	},
	"Taker.Take": func(h *hostile) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		h.taking("taken", func(t *asynq.Taker) {
			take := func(ctx context.Context, n int, queues ...string) error {
				leases, err := t.Take(ctx, n, queues...)
				h.want(len(leases) == 0, "%d leases", len(leases))
				return err
			}
			h.refused(take(noContext, 1), nil, "ctx must not be nil")
			h.refused(take(context.Background(), 0), nil, "at least 1")
			h.refused(take(context.Background(), math.MinInt), nil, "at least 1")
			for _, name := range blankNames {
				h.refused(take(context.Background(), 1, "default", name), nil, "must not be empty")
			}
			h.refused(take(context.Background(), 1, "}"), nil, "closing brace")
			h.refused(take(context.Background(), 1, notUTF8), nil, "not UTF-8")
			h.refused(take(ctx, math.MaxInt, "default"), context.Canceled)
			short, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			defer cancel()
			h.refused(take(short, math.MaxInt, "taken", "taken", "clo}sing", "*", longName), context.DeadlineExceeded)
		})
		t := asynq.NewTakerFromRedisClient(h.redis, asynq.TakerConfig{})
		_, err := t.Take(context.Background(), 1)
		h.refused(err, nil, "call Start first")
		t.Shutdown()
		_, err = t.Take(context.Background(), 1)
		h.refused(err, asynq.ErrTakerClosed)
	},
	"Taker.Lease": func(h *hostile) {
		t := asynq.NewTakerFromRedisClient(h.redis, asynq.TakerConfig{})
		defer t.Shutdown()
		l := t.Lease("", "", "")
		h.want(l.Task() == nil && l.Info() == nil, "a lease of nothing has a task")
		h.refused(l.Done(context.Background(), nil), nil, "call Start first")
	},
	"Taker.Settle": func(h *hostile) {
		h.taking("taken", func(t *asynq.Taker) {
			h.want(len(t.Settle(context.Background())) == 0, "errors of nothing")
			h.refused(t.Settle(noContext, asynq.Settlement{})[0], nil, "ctx must not be nil")
			other := asynq.NewTakerFromRedisClient(h.redis, asynq.TakerConfig{})
			defer other.Shutdown()
			errs := t.Settle(context.Background(), asynq.Settlement{}, asynq.Settlement{Lease: other.Lease("default", "pending", "a")},
				asynq.Settlement{Lease: t.Lease("default", "pending", "a"), Err: errors.New("boom"), Release: true})
			h.refused(errs[0], nil, "must not be nil")
			h.refused(errs[1], nil, "another Taker's")
			h.refused(errs[2], asynq.ErrLeaseExpired)
		})
	},
	"Taker.Extend": func(h *hostile) {
		h.taking("taken", func(t *asynq.Taker) {
			h.refused(t.Extend(noContext, nil)[0], nil, "ctx must not be nil")
			h.refused(t.Extend(context.Background(), nil)[0], nil, "must not be nil")
		})
	},
	"Lease.Queue": func(h *hostile) { h.noLease(func(l *asynq.Lease) { _ = l.Queue() }) },
	"Lease.ID":    func(h *hostile) { h.noLease(func(l *asynq.Lease) { _ = l.ID() }) },
	"Lease.Token": func(h *hostile) { h.noLease(func(l *asynq.Lease) { _ = l.Token() }) },
	"Lease.Task":  func(h *hostile) { h.noLease(func(l *asynq.Lease) { h.want(l.Task() == nil, "a task") }) },
	"Lease.Info":  func(h *hostile) { h.noLease(func(l *asynq.Lease) { h.want(l.Info() == nil, "an info") }) },
	"Lease.Deadline": func(h *hostile) {
		h.noLease(func(l *asynq.Lease) { h.want(l.Deadline().IsZero(), "a deadline") })
	},
	"Lease.ExpiresAt": func(h *hostile) {
		h.noLease(func(l *asynq.Lease) { h.want(l.ExpiresAt().IsZero(), "an end") })
	},
	"Lease.Context":  func(h *hostile) { h.noLease(func(l *asynq.Lease) { h.taken(l.Context().Err()) }) },
	"Lease.Canceled": func(h *hostile) { h.noLease(func(l *asynq.Lease) { h.want(l.Canceled() == nil, "a channel") }) },
	"Lease.Load": func(h *hostile) {
		h.noLease(func(l *asynq.Lease) {
			h.refused(l.Load(noContext), nil, "ctx must not be nil")
			h.refused(l.Load(context.Background()), asynq.ErrLeaseExpired)
		})
	},
	"Lease.Extend": func(h *hostile) {
		h.noLease(func(l *asynq.Lease) {
			_, err := l.Extend(context.Background())
			h.refused(err, asynq.ErrLeaseExpired)
		})
	},
	"Lease.Done": func(h *hostile) {
		h.noLease(func(l *asynq.Lease) {
			if l.ID() == "pending" && l.Queue() == "default" {
				h.refused(l.Done(context.Background(), []byte("x")), asynq.ErrLeaseExpired)
			}
		})
	},
	"Lease.Fail": func(h *hostile) {
		h.noLease(func(l *asynq.Lease) {
			h.refused(l.Fail(context.Background(), nil), nil, "call Done for success")
			h.refused(l.Fail(context.Background(), errors.New("boom")), asynq.ErrLeaseExpired)
		})
	},
	"Lease.Release": func(h *hostile) {
		h.noLease(func(l *asynq.Lease) { h.refused(l.Release(context.Background()), asynq.ErrLeaseExpired) })
	},
}
