package flow_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/flow"
	"github.com/asynq-go/asynq/internal/testenv"
	"github.com/asynq-go/asynq/internal/wire"
)

// Count counts the newest flows by status, skips listed ones that do not exist, and reports the age
// of the oldest and of the one that has not changed for longest.
func TestCount(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx, in := env.Context(), inspector(env)
		count := func(n int) string {
			c, err := in.Count(ctx, n)
			env.NoError(err)
			return fmt.Sprint(c.Running.Flows, c.Blocked.Flows, c.Succeeded.Flows, c.Failed.Flows, c.Canceled.Flows, c.Unread)
		}
		if got := count(10); got != "0 0 0 0 0 0" {
			t.Errorf("without flows: %s", got)
		}
		env.Serve(asynq.Config{Concurrency: 4}, func(_ context.Context, task *asynq.Task) error {
			if task.Type() == "fails" {
				return asynq.SkipRetry
			}
			return nil
		})
		later := asynq.NewTask("t", nil, asynq.ProcessIn(time.Hour))
		start(env, flow.Chain("succeeded", asynq.NewTask("t", nil)))
		start(env, flow.Chain("failed", asynq.NewTask("fails", nil)))
		start(env, flow.Chain("blocked", asynq.NewTask("fails", nil), later))
		start(env, flow.Chain("canceled", later))
		start(env, flow.Chain("running", later))
		start(env, flow.Chain("running too", later))
		_, err := in.Cancel(ctx, "canceled")
		env.NoError(err)
		for _, id := range []string{"succeeded", "failed", "blocked", "canceled"} {
			awaitStatus(env, id, flow.Status(id))
		}
		if got := count(1000); got != "2 1 1 1 1 0" {
			t.Errorf("counted %s", got)
		}
		n := wire.Namespace("asynq")
		env.NoError(env.RDB.Del(ctx, n.Flow("failed"), n.FlowPlan("failed")).Err())
		if got := count(1000); got != "2 1 1 0 1 0" {
			t.Errorf("without the failed one: %s", got)
		}
		hour := time.Now().Add(-time.Hour).UnixMilli()
		env.NoError(env.RDB.HSet(ctx, n.Flow("running"), "created", hour-3_600_000).Err())
		env.NoError(env.RDB.HSet(ctx, n.Flow("running too"), "created", hour-1, "changed", hour).Err())
		c, err := in.Count(ctx, flow.MaxCount)
		env.NoError(err)
		if s := c.Running; s.Age.Round(time.Minute) != 2*time.Hour || s.Idle.Round(time.Minute) != time.Hour {
			t.Errorf("running flows are %+v", s)
		}
		if s := c.Blocked; s.Age > time.Minute || s.Idle > s.Age || s.Age < 0 {
			t.Errorf("blocked flows are %+v", s)
		}
		if c.Failed != (flow.StatusCount{}) {
			t.Errorf("failed flows are %+v", c.Failed)
		}
		for _, bad := range []int{-1, 0, flow.MaxCount + 1} {
			if _, err := in.Count(ctx, bad); err == nil {
				t.Errorf("a count of %d flows succeeds", bad)
			}
		}
		if _, err := in.Count(nil, 1); err == nil { //nolint:staticcheck // a mistake of the caller
			t.Error("a count without a context succeeds")
		}
	})
}

// Count reads several pages, and no more flows than requested.
func TestCountPages(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx := env.Context()
		pipe := env.RDB.Pipeline()
		for i := range 1500 {
			id := fmt.Sprint(i)
			pipe.ZAdd(ctx, "asynq:flows", redis.Z{Score: float64(i + 1), Member: id})
			pipe.HSet(ctx, wire.Namespace("asynq").Flow(id), "status", "running", "created", i+1, "changed", i+1)
		}
		_, err := pipe.Exec(ctx)
		env.NoError(err)
		for _, n := range []int{1, 999, 1000, 1001, 1500, 1501, 100_000} {
			c, err := inspector(env).Count(ctx, n)
			env.NoError(err)
			if c.Running.Flows != min(n, 1500) || c.Unread != 1500-min(n, 1500) {
				t.Errorf("a count of %d returns %d and %d unread", n, c.Running.Flows, c.Unread)
			}
		}
	})
}
