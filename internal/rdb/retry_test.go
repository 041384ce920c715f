package rdb_test

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/script"
)

// answer is an error reply of Redis.
type answer string

func (a answer) Error() string { return string(a) }
func (answer) RedisError()     {}

// failing is a hook that makes a script call fail if fail returns an error, after the execution of
// the call or instead of it.
type failing struct {
	redis.Hook
	fail func() (err error, executed bool)
}

func (h failing) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h failing) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "evalsha" {
			return next(ctx, cmd)
		}
		err, executed := h.fail()
		if err == nil {
			return next(ctx, cmd)
		}
		if executed {
			cmd.SetErr(nil)
			if next(ctx, cmd) != nil { // Redis does not know the script yet
				return cmd.Err()
			}
		}
		cmd.SetErr(err)
		return err
	}
}

func (h failing) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		isCall := func(cmd redis.Cmder) bool { return cmd.Name() == "evalsha" }
		if !slices.ContainsFunc(cmds, isCall) { // one of go-redis, which sets up a connection
			return next(ctx, cmds)
		}
		var errs []error
		for _, cmd := range cmds {
			errs = append(errs, h.ProcessHook(func(ctx context.Context, cmd redis.Cmder) error { return next(ctx, []redis.Cmder{cmd}) })(ctx, cmd))
		}
		return errors.Join(errs...)
	}
}

func failingBroker(t *testing.T, r *redistest.Redis, fail func() (error, bool)) *rdb.Broker {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: r.Addr, DB: r.DB})
	t.Cleanup(func() { _ = client.Close() })
	client.AddHook(failing{fail: fail})
	return rdb.New(client, "")
}

func TestEnqueueRetries(t *testing.T) {
	lost := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	for name, tt := range map[string]struct {
		err      error
		executed bool
		again    bool
	}{
		"nobody there":         {lost, false, true},
		"the answer is lost":   {io.EOF, true, true},
		"no answer":            {context.DeadlineExceeded, true, true}, // as a dial that takes too long
		"a shard has no chief": {answer("CLUSTERDOWN The cluster is down"), false, true},
		"a replica":            {answer("READONLY You can't write against a read only replica."), false, true},
		"moved":                {answer("MOVED 1 127.0.0.1:1"), false, true},
		"full":                 {answer("OOM command not allowed"), false, false},
		"too few replicas":     {answer("NOREPLICAS Not enough good replicas to write."), false, false},
		"not allowed":          {answer("NOPERM"), false, false},
		"closed":               {redis.ErrClosed, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				redistest.LoadScripts(context.Background(), rdb.New(r.Client(), "other")) // a call whose script is not known is sent twice
				calls := 0
				b := failingBroker(t, r, func() (error, bool) {
					if calls++; calls <= 2 {
						return tt.err, tt.executed
					}
					return nil, false
				})
				b.RetryBudget = time.Minute
				task, late := redistest.NewTask(t, "q", "a"), redistest.NewTask(t, "r", "b")
				late.ProcessAt = time.Now().Add(time.Hour).Unix()
				b.Enqueue(context.Background(), task, late)
				if !tt.again {
					if calls != 2 || !errors.Is(task.Err, tt.err) || !errors.Is(late.Err, tt.err) {
						t.Errorf("%d calls, errors %v and %v; want 2 and %v", calls, task.Err, late.Err, tt.err)
					}
					return
				}
				if calls != 4 || task.Err != nil || late.Err != nil {
					t.Errorf("%d calls, errors %v and %v; want 4 and none", calls, task.Err, late.Err)
				}
				if n := r.Client().LLen(context.Background(), b.Keys("q").Pending()).Val(); n != 1 {
					t.Errorf("the task is pending %d times", n)
				}
			})
		})
	}
}

// Only calls without a reply are retried.
func TestEnqueueRetriesOnlyUnknownCalls(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		calls := 0
		b := failingBroker(t, r, func() (error, bool) {
			if calls++; calls == 2 {
				return io.EOF, false
			}
			return nil, false
		})
		b.RetryBudget = time.Minute
		r.Make(t, redistest.NewTask(t, "q", "a"), redistest.NewTask(t, "other", "x")) // Redis knows the script
		first, second := redistest.NewTask(t, "q", "a"), redistest.NewTask(t, "r", "a")
		b.Enqueue(context.Background(), first, second)
		if calls != 3 || !errors.Is(first.Err, script.ErrTaskIDConflict) || second.Err != nil {
			t.Errorf("%d calls, errors %v and %v", calls, first.Err, second.Err)
		}
	})
}

// A call that keeps failing while others succeed is not an outage, but its retries must end all the
// same: Redis closes the connection when a request is too large.
func TestEnqueueGivesUpWhatAlwaysFails(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		var b *rdb.Broker
		nested := false
		b = failingBroker(t, r, func() (error, bool) {
			if nested {
				return nil, false
			}
			nested = true
			b.Enqueue(context.Background(), redistest.NewTask(t, "q", rand.Text()))
			nested = false
			return io.EOF, false
		})
		b.RetryBudget = 300 * time.Millisecond
		task := redistest.NewTask(t, "q", "a")
		if b.Enqueue(context.Background(), task); !errors.Is(task.Err, io.EOF) {
			t.Error(task.Err)
		}
	})
}

// The retry budget is finite. During an outage all calls share one budget. A call can also fail
// before the budget is used up.
func TestEnqueueGivesUp(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		var calls atomic.Int64
		down := true
		b := failingBroker(t, r, func() (error, bool) {
			calls.Add(1)
			if down {
				return io.EOF, false
			}
			return nil, false
		})
		enqueue := func(ctx context.Context, id string) (n int64, took time.Duration, err error) {
			before, began := calls.Load(), time.Now()
			task := redistest.NewTask(t, "q", id)
			b.Enqueue(ctx, task)
			return calls.Load() - before, time.Since(began), task.Err
		}
		if n, _, err := enqueue(context.Background(), "a"); n != 1 || !errors.Is(err, io.EOF) {
			t.Errorf("without patience: %d calls, error %v", n, err)
		}
		b.RetryBudget = 2 * time.Second // three calls fit in it even if the machine stops in between
		if n, took, err := enqueue(context.Background(), "b"); n < 3 || took > 20*time.Second || !errors.Is(err, io.EOF) {
			t.Errorf("%d calls in %v, error %v", n, took, err)
		}
		if n, _, err := enqueue(context.Background(), "c"); n != 1 || !errors.Is(err, io.EOF) {
			t.Errorf("the next one has patience of its own: %d calls, error %v", n, err)
		}
		b.RetryBudget = time.Minute
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		defer cancel()
		if _, took, err := enqueue(ctx, "d"); took > 20*time.Second || !errors.Is(err, io.EOF) { // RetryBudget is a minute
			t.Errorf("ctx has ended: %v, error %v", took, err)
		}
		down = false
		if _, _, err := enqueue(context.Background(), "e"); err != nil {
			t.Error(err)
		}
		down, b.RetryBudget = true, 2*time.Second
		if n, _, _ := enqueue(context.Background(), "f"); n < 3 {
			t.Errorf("in the next outage: %d calls", n)
		}
	})
}
