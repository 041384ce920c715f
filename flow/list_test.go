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
			start(env, flow.Chain(id, asynq.NewTask("a", nil)))
			at := now.Add(-time.Hour + time.Duration(i)*time.Minute)
			stale := redis.Z{Score: float64(at.Add(time.Second).UnixMilli()), Member: fmt.Sprintf("gone-%d", i)}
			env.NoError(env.RDB.ZAdd(ctx, key, redis.Z{Score: float64(at.UnixMilli()), Member: id}, stale).Err())
			want = append([]string{id}, want...)
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
