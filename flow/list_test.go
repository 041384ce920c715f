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

// List skips flows that are listed and do not exist. It removes them from the list, except those
// of the last minute, which may be about to be created.
func TestList(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx, cancel := context.WithTimeout(env.Context(), testenv.Timeout)
		defer cancel()
		now, key := time.Now(), wire.DefaultNamespace.Flows()
		var want []string
		for i := range 5 {
			id := fmt.Sprintf("flow-%d", i)
			want = append([]string{id}, want...)
			start(env, flow.Chain(id, asynq.NewTask("a", nil)))
		}
		for i := range 5 {
			id := fmt.Sprintf("flow-%d", i)
			at := now.Add(-time.Hour + time.Duration(i)*time.Minute)
			stale := redis.Z{Score: float64(at.Add(time.Second).UnixMilli()), Member: fmt.Sprintf("gone-%d", i)}
			env.NoError(env.RDB.ZAdd(ctx, key, redis.Z{Score: float64(at.UnixMilli()), Member: id}, stale).Err())
		}
		env.NoError(env.RDB.ZAdd(ctx, key, redis.Z{Score: float64(now.UnixMilli()), Member: "new"}).Err())
		for _, page := range []struct{ skip, n, from, to, total int }{{0, 2, 0, 2, 9}, {0, 100, 0, 5, 6}, {0, 3, 0, 3, 6}, {4, 2, 3, 5, 6}, {6, 1, 5, 5, 6}} {
			flows, total, err := inspector(env).List(ctx, page.skip, page.n)
			env.NoError(err)
			var ids []string
			for _, f := range flows {
				ids = append(ids, f.ID)
			}
			if fmt.Sprint(ids) != fmt.Sprint(want[page.from:page.to]) || total != page.total {
				env.T.Errorf("%+v: got %q and %d", page, ids, total)
			}
		}
		if left := env.RDB.ZRevRange(ctx, key, 0, -1).Val(); fmt.Sprint(left) != fmt.Sprint(append([]string{"new"}, want...)) {
			env.T.Errorf("listed are %q", left)
		}
	})
}

// Starting flows removes some of the listed flows that do not exist, so that the list does not grow
// without limit. Flows that exist, or were listed just now, remain.
func TestStartPrunesTheList(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx := env.Context()
		const gone = 1000
		pipe := env.RDB.Pipeline()
		for i := range gone {
			pipe.ZAdd(ctx, "asynq:flows", redis.Z{Score: float64(i + 1), Member: fmt.Sprint("gone", i)})
		}
		pipe.ZAdd(ctx, "asynq:flows", redis.Z{Score: float64(time.Now().UnixMilli()), Member: "announced"})
		_, err := pipe.Exec(ctx)
		env.NoError(err)
		const starts = 500 // about 20 of them prune
		for i := range starts {
			start(env, flow.Chain(fmt.Sprint(i), asynq.NewTask("t", nil)))
		}
		left := env.RDB.ZCard(ctx, "asynq:flows").Val()
		if left > gone+starts+1-50 || left < starts+1 {
			t.Errorf("%d are listed after %d starts", left, starts)
		}
		for range 500 {
			env.NoError(env.Broker().PruneFlows(ctx))
		}
		if left := env.RDB.ZCard(ctx, "asynq:flows").Val(); left != starts+1 {
			t.Errorf("%d are listed, want %d", left, starts+1)
		}
	})
}
