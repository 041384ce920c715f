package step_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
	"github.com/asynq-go/asynq/step"
)

// keyCalls counts the calls of scripts with a key as the first one, outside of pipelines.
type keyCalls struct {
	key   string
	calls atomic.Int32
}

func (k *keyCalls) DialHook(next redis.DialHook) redis.DialHook { return next }

func (k *keyCalls) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" && fmt.Sprint(cmd.Args()[3]) == k.key {
			k.calls.Add(1)
		}
		return next(ctx, cmd)
	}
}

func (k *keyCalls) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// The first step of an attempt reads all steps, and each new value costs one call more.
func TestCallsOfSteps(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		client := redis.NewClient(&redis.Options{Addr: env.Addr, DB: env.DB})
		env.T.Cleanup(func() { _ = client.Close() })
		count := &keyCalls{key: env.Queue.Task("t")}
		client.AddHook(count)
		counts := make(chan int32, 2)
		env.Enqueue("t", asynq.MaxRetry(1))
		env.ServeOn(asynq.SharedRedisClient(client), asynq.Config{RetryDelayFunc: fast}, func(ctx context.Context, _ *asynq.Task) error {
			before := count.calls.Load()
			for i := range 10 {
				if _, err := step.Run(ctx, fmt.Sprint(i), func(context.Context) (int, error) { return i, nil }); err != nil {
					return err
				}
			}
			counts <- count.calls.Load() - before
			return errors.New("failed")
		})
		for _, want := range []int32{11, 1} {
			if n := testenv.Await(env, counts, "an attempt"); n != want {
				env.T.Errorf("%d calls, want %d", n, want)
			}
		}
		env.AwaitState("t", "archived")
	})
}
