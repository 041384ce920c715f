package rdb_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
)

func TestEnqueue(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		soon := time.Now().Add(time.Hour).Unix()
		delayed := redistest.NewTask(t, "q", "b")
		delayed.ProcessAt = soon
		later := redistest.NewTask(t, "q", "f")
		later.ProcessAt, later.Group = soon, "g"
		grouped := redistest.NewTask(t, "q", "c")
		grouped.Group = "g"
		locked := lock(redistest.NewTask(t, "q", "d"), "d")
		other := redistest.NewTask(t, "r", "a")
		r.Make(t, redistest.NewTask(t, "q", "a"), delayed, later, grouped, locked, redistest.NewTask(t, "q", "e"), other)
		wantDump(t, r, `
			asynq:queues = {q r}
			Q:g:g = {c:now}
			Q:groups = {g}
			Q:groups_due = {g:now} ttl 1h0m0s
			Q:marker = [1] ttl 1m0s
			Q:pending = [e d a]
			Q:scheduled = {b:now+1h0m0s f:now+1h0m0s}
			Q:t:a = {msg:test(payload) pending_since:now state:pending}
			Q:t:b = {msg:test(payload) state:scheduled}
			Q:t:c = {group:g msg:test(payload) state:aggregating}
			Q:t:d = {msg:test(payload) pending_since:now state:pending unique_key:asynq:{q}:unique:test:d}
			Q:t:e = {msg:test(payload) pending_since:now state:pending}
			Q:t:f = {group:g msg:test(payload) state:scheduled}
			Q:unique:test:d = d ttl 1m0s
			asynq:{r}:marker = [1] ttl 1m0s
			asynq:{r}:pending = [a]
			asynq:{r}:t:a = {msg:test(payload) pending_since:now state:pending}
		`)
	})
}

// kindsOfTask are one task for each script that makes tasks, with the same ID and lock.
func kindsOfTask(t *testing.T) map[string]*rdb.NewTask {
	pending := lock(redistest.NewTask(t, "q", "a"), "x")
	scheduled := lock(redistest.NewTask(t, "q", "a"), "x")
	scheduled.ProcessAt = time.Now().Add(time.Hour).Unix()
	grouped := lock(redistest.NewTask(t, "q", "a"), "x")
	grouped.Group = "g"
	return map[string]*rdb.NewTask{"pending": pending, "scheduled": scheduled, "aggregating": grouped}
}

func TestEnqueueRefuses(t *testing.T) {
	for name, task := range kindsOfTask(t) {
		t.Run(name, func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				ctx, b := context.Background(), r.Broker()
				task := *task
				b.Enqueue(ctx, &task)
				if task.Err != nil {
					t.Fatal(task.Err)
				}
				for _, tt := range []struct {
					name   string
					change func(*rdb.NewTask)
					want   error
				}{
					{"the same ID and lock", func(*rdb.NewTask) {}, rdb.ErrTaskIDConflict},
					{"the same ID without a lock", func(n *rdb.NewTask) { n.Lock = "" }, rdb.ErrTaskIDConflict},
					{"the same ID with a lock of its own", func(n *rdb.NewTask) { lock(n, "y") }, rdb.ErrTaskIDConflict},
					{"the same lock", func(n *rdb.NewTask) { n.ID = "b" }, rdb.ErrDuplicateTask},
				} {
					unchanged(t, r, tt.name, func() {
						other := task
						tt.change(&other)
						if b.Enqueue(ctx, &other); !errors.Is(other.Err, tt.want) {
							t.Errorf("%s: %v", tt.name, other.Err)
						}
					})
				}
			})
		})
	}
}

// repeatCalls is a network that loses the first reply to every script call, so that go-redis sends it again.
type repeatCalls struct{}

func (repeatCalls) DialHook(next redis.DialHook) redis.DialHook { return next }

func (repeatCalls) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		_ = next(ctx, cmd) // lost
		cmd.SetErr(nil)
		return next(ctx, cmd)
	}
}

func (repeatCalls) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		_ = next(ctx, cmds) // lost
		for _, cmd := range cmds {
			cmd.SetErr(nil)
		}
		return next(ctx, cmds)
	}
}

// repeatingBroker returns a broker whose calls all are sent twice.
func repeatingBroker(t *testing.T, r *redistest.Redis) *rdb.Broker {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: r.Addr, DB: r.DB})
	t.Cleanup(func() { _ = client.Close() })
	client.AddHook(repeatCalls{})
	return rdb.New(client, "")
}

// A call whose reply was lost is sent again, and must be answered as it was the first time.
func TestEnqueueRepeated(t *testing.T) {
	for name, task := range kindsOfTask(t) {
		t.Run(name, func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				ctx, b := context.Background(), repeatingBroker(t, r)
				taken := lock(redistest.NewTask(t, "q", "taken"), "taken")
				r.Make(t, taken)
				first, conflict, duplicate := *task, *task, *task
				conflict.ID, conflict.Lock = "taken", ""
				duplicate.ID, duplicate.Lock = "b", taken.Lock
				b.Enqueue(ctx, &conflict, &first, &duplicate)
				if first.Err != nil || !errors.Is(conflict.Err, rdb.ErrTaskIDConflict) || !errors.Is(duplicate.Err, rdb.ErrDuplicateTask) {
					t.Errorf("errors: %v, %v, %v", first.Err, conflict.Err, duplicate.Err)
				}
				again := *task
				if b.Enqueue(ctx, &again); !errors.Is(again.Err, rdb.ErrTaskIDConflict) {
					t.Errorf("another call with the same task: %v", again.Err)
				}
			})
		})
	}
}

// The first call may come to Redis so late that its tasks would be made again: after the sender's next call, which shows that it
// has long given up.
func TestEnqueueLingering(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx := context.Background()
		b, recorded := recordingBroker(t, r)
		for _, id := range []string{"a", "b"} {
			b.Enqueue(ctx, redistest.NewTask(t, "q", id))
			f := r.Fetch(t, "q", 1)
			settle(t, b, rdb.Settlement{ID: id, Token: f.Token, Outcome: rdb.Done})
		}
		first := recorded.calls["enqueue"][0]
		unchanged(t, r, "a call that lingered", func() {
			args := append([]any{"evalsha", first.sha, len(first.keys)}, append(first.keys, first.args...)...)
			codes, err := r.Client().Do(ctx, args...).Int64Slice()
			if err != nil || !slices.Equal(codes, []int64{int64(rdb.CodeStale)}) {
				t.Errorf("it is answered %v, error %v", codes, err)
			}
		})
	})
}

// A task that has the same ID and the same lock as another one is told of its lock only where another task holds it.
func TestEnqueueConflictOfIDAndLock(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx := context.Background()
		r.Make(t, lock(redistest.NewTask(t, "q", "a"), "x"), lock(redistest.NewTask(t, "q", "b"), "y"))
		unchanged(t, r, "the enqueue", func() {
			own := lock(redistest.NewTask(t, "q", "a"), "x")
			others := lock(redistest.NewTask(t, "q", "a"), "y")
			r.Broker().Enqueue(ctx, own, others)
			if !errors.Is(own.Err, rdb.ErrTaskIDConflict) || !errors.Is(others.Err, rdb.ErrDuplicateTask) {
				t.Errorf("own lock: %v; another's lock: %v", own.Err, others.Err)
			}
		})
	})
}

func TestEnqueueTakesLockOfDeadHolder(t *testing.T) {
	for name, task := range kindsOfTask(t) {
		t.Run(name, func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				ctx := context.Background()
				must(t, r.Client().Set(ctx, task.Lock, "gone", 0))
				task := *task
				r.Make(t, &task)
				if holder := r.Client().Get(ctx, task.Lock).Val(); holder != "a" {
					t.Errorf("the lock is held by %q", holder)
				}
				if ttl := r.Client().TTL(ctx, task.Lock).Val(); ttl <= 0 || ttl > time.Minute {
					t.Errorf("the lock's TTL is %v", ttl)
				}
			})
		})
	}
}

func TestEnqueueLeavesForeignKeyInPlaceOfLock(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.AllowViolations()
		ctx := context.Background()
		task := lock(redistest.NewTask(t, "q", "a"), "x")
		must(t, r.Client().LPush(ctx, task.Lock, "something"))
		must(t, r.Client().SAdd(ctx, "asynq:queues", "q"))
		unchanged(t, r, "the enqueue", func() {
			if r.Broker().Enqueue(ctx, task); !errors.Is(task.Err, rdb.ErrDuplicateTask) {
				t.Errorf("got %v", task.Err)
			}
		})
	})
}

func TestEnqueueLockWithoutTTLGetsTheShortest(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		task := lock(redistest.NewTask(t, "q", "a"), "x")
		task.LockTTL = 0
		r.Make(t, task)
	})
}

func TestEnqueueSameLockAndIDWithinBatch(t *testing.T) {
	for name, task := range kindsOfTask(t) {
		t.Run(name, func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				first, locked, conflict := *task, *task, *task
				locked.ID, conflict.Lock = "b", ""
				r.Broker().Enqueue(context.Background(), &first, &locked, &conflict)
				if first.Err != nil || !errors.Is(locked.Err, rdb.ErrDuplicateTask) || !errors.Is(conflict.Err, rdb.ErrTaskIDConflict) {
					t.Errorf("errors: %v, %v, %v", first.Err, locked.Err, conflict.Err)
				}
			})
		})
	}
}

func TestEnqueueManyKeepsOrder(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		const n = 1200 // three script calls
		made := r.Enqueue(t, "q", n)
		pending := r.Client().LRange(context.Background(), "asynq:{q}:pending", 0, -1).Val()
		slices.Reverse(pending)
		if !slices.Equal(pending, made) {
			t.Errorf("%d tasks in pending, not the %d made in their order", len(pending), n)
		}
	})
}

func TestEnqueueLeavesOneMarker(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx := context.Background()
		at := func(id string, in time.Duration) *rdb.NewTask {
			task := redistest.NewTask(t, "q", id)
			task.ProcessAt = time.Now().Add(in).Unix()
			return task
		}
		steps := []struct {
			name string
			task *rdb.NewTask
			want int64
		}{
			{"pending", redistest.NewTask(t, "q", "a"), 1},
			{"scheduled as the first", at("b", time.Hour), 1},
			{"scheduled as a later one", at("c", 2*time.Hour), 0},
			{"scheduled as the new first", at("d", time.Minute), 1},
		}
		for _, step := range steps {
			must(t, r.Client().Del(ctx, "asynq:{q}:marker"))
			r.Make(t, step.task)
			if n := r.Client().LLen(ctx, "asynq:{q}:marker").Val(); n != step.want {
				t.Errorf("%s: %d markers, want %d", step.name, n, step.want)
			}
		}
		r.Enqueue(t, "q", 3)
		if n := r.Client().LLen(ctx, "asynq:{q}:marker").Val(); n != 1 {
			t.Errorf("%d markers after more tasks", n)
		}
	})
}

func TestEnqueuePublishesQueueOnce(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		b.Enqueue(ctx, redistest.NewTask(t, "q", "a"))
		must(t, r.Client().Del(ctx, "asynq:queues"))
		b.Enqueue(ctx, redistest.NewTask(t, "q", "b"))
		if n := r.Client().Exists(ctx, "asynq:queues").Val(); n != 0 {
			t.Error("the name of a queue is published with every task")
		}
	})
}

func TestEnqueueWhenQueuesCannotBePublished(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		must(t, r.Client().Set(context.Background(), "asynq:queues", "of a wrong type", 0))
		r.Make(t, redistest.NewTask(t, "q", "a"))
	})
}
