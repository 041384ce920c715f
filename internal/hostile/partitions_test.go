package hostile_test

import (
	"cmp"
	"context"
	"math"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
)

// hostilePartition calls a method that takes a queue and a partition key.
func hostilePartition(h *hostile, call func(ctx context.Context, queue, key string) error) {
	h.wantErr(call(noContext, "default", "k"), nil, "ctx must not be nil")
	h.wantErr(call(context.Background(), "missing queue", "k"), asynq.ErrQueueNotFound)
	for _, key := range []string{notUTF8, "a\x00b"} {
		h.wantErr(call(context.Background(), "default", key), nil, "UTF-8 without NUL")
	}
	for _, key := range []string{"k", " ", "a;b", "%", longName} {
		h.noErr(call(context.Background(), "default", key))
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	h.wantErr(call(ctx, "default", "k"), context.Canceled)
}

var hostilePartitions = map[string]func(h *hostile){
	"Inspector.SetPartition": func(h *hostile) {
		hostilePartition(h, func(ctx context.Context, queue, key string) error {
			return cmp.Or(h.inspect.SetPartition(ctx, queue, key, asynq.PartitionSettings{Weight: 2}),
				h.inspect.SetPartition(ctx, queue, key, asynq.PartitionSettings{}))
		})
		for _, s := range []asynq.PartitionSettings{
			{Concurrency: 1001}, {Concurrency: math.MaxInt}, {Weight: -1}, {Weight: math.NaN()}, {Weight: math.Inf(1)}, {Weight: 1e-300},
			{Rate: asynq.RateLimit{Events: 1}}, {Rate: asynq.RateLimit{Per: time.Second}}, {Rate: asynq.RateLimit{Events: math.MaxInt, Per: time.Second}},
			{Rate: asynq.RateLimit{Events: 1, Per: 1}}, {Rate: asynq.RateLimit{Events: 1, Per: longest}},
			{Rate: asynq.RateLimit{Events: 1, Per: time.Second, Burst: -1}}, {Rate: asynq.RateLimit{Events: 1, Per: time.Hour, Burst: 25}},
		} {
			h.wantErr(h.inspect.SetPartition(context.Background(), "default", "k", s), nil, `partition "k": `)
		}
		for _, s := range []asynq.PartitionSettings{
			{Concurrency: math.MinInt}, {Concurrency: 1000, Weight: 1e-6}, {Weight: 1e6, Paused: true}, {Rate: asynq.RateLimit{Events: -1}},
			{Rate: asynq.RateLimit{Events: 1_000_000, Per: time.Microsecond, Burst: 1_000_000}}, {},
		} {
			h.noErr(h.inspect.SetPartition(context.Background(), "default", "k", s))
			info, err := h.inspect.GetPartitionInfo(context.Background(), "default", "k")
			s.Concurrency = max(s.Concurrency, -1)
			h.check(err == nil && info.Settings == s, "settings %+v became %+v (%v)", s, info, err)
		}
	},
	"Inspector.UpdatePartition": func(h *hostile) {
		h.wantErr(h.inspect.UpdatePartition(context.Background(), "default", "k", nil), nil, "change must not be nil")
		for _, weight := range []float64{2, 0} {
			hostilePartition(h, func(ctx context.Context, queue, key string) error {
				return h.inspect.UpdatePartition(ctx, queue, key, func(s *asynq.PartitionSettings) error {
					s.Weight = weight
					return nil
				})
			})
		}
		h.wantErr(h.inspect.UpdatePartition(context.Background(), "default", "k", func(s *asynq.PartitionSettings) error {
			s.Weight = math.NaN()
			return nil
		}), nil, `partition "k": `)
	},
	"Inspector.PausePartition": func(h *hostile) {
		hostilePartition(h, func(ctx context.Context, queue, key string) error {
			return cmp.Or(h.inspect.PausePartition(ctx, queue, key), h.inspect.ResumePartition(ctx, queue, key))
		})
	},
	"Inspector.ResumePartition": func(h *hostile) { hostilePartition(h, h.inspect.ResumePartition) },
	"Inspector.TaskSteps": func(h *hostile) {
		ctx := context.Background()
		h.wantErr(testenv.ErrorOf(h.inspect.TaskSteps(noContext, "default", "pending")), nil, "ctx must not be nil")
		h.wantErr(testenv.ErrorOf(h.inspect.TaskSteps(ctx, "missing queue", "pending")), asynq.ErrQueueNotFound)
		for _, id := range append(unusualNames, "", notUTF8, hugeName) {
			h.wantErr(testenv.ErrorOf(h.inspect.TaskSteps(ctx, "default", id)), asynq.ErrTaskNotFound)
		}
		key := h.Env.Queue.Task("later")
		h.noErr(h.RDB.HSet(ctx, key, "step:", "run 1 1", "step:odd", "odd", "step:nap", "sleep 99999999999999999999 1", "sig:", "{", "awaits", "soon x").Err())
		steps, err := h.inspect.TaskSteps(ctx, "default", "later")
		h.check(err == nil && len(steps.Steps) == 1 && len(steps.Signals) == 1 && steps.Awaits == "", "steps %+v (%v)", steps, err)
		h.noErr(h.RDB.HDel(ctx, key, "step:", "step:odd", "step:nap", "sig:", "awaits").Err())
		h.noErr(h.RDB.Set(ctx, h.Env.Queue.Task("text"), "x", 0).Err())
		h.wantErr(testenv.ErrorOf(h.inspect.TaskSteps(ctx, "default", "text")), asynq.ErrTaskNotFound)
		h.noErr(h.RDB.Del(ctx, h.Env.Queue.Task("text")).Err())
	},
	"Inspector.GetPartitionInfo": func(h *hostile) {
		hostilePartition(h, func(ctx context.Context, queue, key string) error {
			return testenv.ErrorOf(h.inspect.GetPartitionInfo(ctx, queue, key))
		})
	},
	"Inspector.Partitions": func(h *hostile) {
		h.wantErr(testenv.LastError(h.inspect.Partitions(noContext, "default")), nil, "ctx must not be nil")
		h.wantErr(testenv.LastError(h.inspect.Partitions(context.Background(), "missing queue")), asynq.ErrQueueNotFound)
		for _, err := range h.inspect.Partitions(context.Background(), "missing queue") {
			h.wantErr(err, asynq.ErrQueueNotFound)
			break
		}
	},
	"PartitionConfig.Validate": func(h *hostile) {
		h.noErr((&asynq.PartitionConfig{Concurrency: -1, Weight: 1e6}).Validate())
		for _, c := range []asynq.PartitionConfig{
			{Concurrency: 1001}, {Ordered: true, Concurrency: 2}, {Weight: -1}, {Weight: math.NaN()}, {Weight: math.Inf(1)},
			{Rate: asynq.RateLimit{Events: 1}}, {Rate: asynq.RateLimit{Per: time.Second}}, {Rate: asynq.RateLimit{Events: 1, Per: time.Nanosecond}},
			{Rate: asynq.RateLimit{Events: 1, Per: time.Hour, Burst: 1 << 40}},
		} {
			h.wantErr(c.Validate(), nil, "asynq: partitions: ")
		}
	},
	"Inspector.PartitionSettings": func(h *hostile) {
		h.wantErr(testenv.ErrorOf(h.inspect.PartitionSettings(noContext, "default")), nil, "ctx must not be nil")
		h.wantErr(testenv.ErrorOf(h.inspect.PartitionSettings(context.Background(), "missing queue")), asynq.ErrQueueNotFound)
	},
	"Inspector.CancelPartitionTasks": func(h *hostile) {
		hostilePartition(h, func(ctx context.Context, queue, key string) error {
			return testenv.ErrorOf(h.inspect.CancelPartitionTasks(ctx, queue, key))
		})
	},
	"Inspector.DeletePartitionTasks": func(h *hostile) {
		h.wantErr(testenv.ErrorOf(h.inspect.DeletePartitionTasks(context.Background(), "default", "")), nil, "must not be empty")
		hostilePartition(h, func(ctx context.Context, queue, key string) error {
			return testenv.ErrorOf(h.inspect.DeletePartitionTasks(ctx, queue, key))
		})
	},
}
