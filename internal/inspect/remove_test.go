package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/inspect"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/script"
)

// litter creates all kinds of leftover and broken keys of queue q.
func litter(t *testing.T, r *redistest.Redis) {
	t.Helper()
	ctx, client := context.Background(), r.Client()
	keys := r.Broker().Keys("q")
	redistest.Must(t, client.Set(ctx, keys.Unique("orphan", nil), "gone", time.Hour))
	redistest.Must(t, client.LPush(ctx, keys.Unique("list", nil), "x"))
	redistest.Must(t, client.Set(ctx, keys.Unblock("p"), 1, time.Minute))
	redistest.Must(t, client.Set(ctx, keys.IdempotencyRecord("s-1-0"), "1:0", time.Minute))
	redistest.Must(t, client.Set(ctx, keys.Import("x"), "1", time.Minute))
	redistest.Must(t, client.Set(ctx, keys.Task("text"), 1, 0))
	for i, state := range []string{"pending", "active", "scheduled", "retry", "archived", "completed", "aggregating", "nonsense"} {
		id := fmt.Sprint("lost", i)
		redistest.Must(t, client.HSet(ctx, keys.Task(id), "state", state, "group", "g", "unique_key", keys.Unique(id, nil)))
		redistest.Must(t, client.Set(ctx, keys.Unique(id, nil), id, 0))
	}
	now := time.Now()
	for _, days := range []int{-1, 0, 1, 45, 89, 90, 91} {
		redistest.Must(t, client.Set(ctx, keys.ProcessedOn(now.AddDate(0, 0, -days)), 1, time.Hour))
		redistest.Must(t, client.Set(ctx, keys.FailedOn(now.AddDate(0, 0, -days)), 1, time.Hour))
	}
}

// orphans adds IDs without tasks, and names without groups, to the collections of queue q.
func orphans(t *testing.T, r *redistest.Redis) {
	t.Helper()
	ctx, client := context.Background(), r.Client()
	keys := r.Broker().Keys("q")
	redistest.Must(t, client.LPush(ctx, keys.Pending(), "stray", "stray"))
	for _, key := range []string{keys.Scheduled(), keys.Retry(), keys.Archived(), keys.Completed(), keys.Group("g"), keys.Group("nameless"), keys.Lease()} {
		redistest.Must(t, client.ZAdd(ctx, key, redis.Z{Score: 1, Member: "stray"}, redis.Z{Score: 1, Member: "scheduled"}))
	}
	redistest.Must(t, client.SAdd(ctx, keys.Groups(), "empty"))
	redistest.Must(t, client.ZAdd(ctx, keys.AggregationSets(),
		redis.Z{Score: 1, Member: keys.AggregationSet("g", "empty")}, redis.Z{Score: 1, Member: "elsewhere"}))
	redistest.Must(t, client.HSet(ctx, keys.Task("aggregatingG"), "group", "another"))
	redistest.Must(t, client.HSet(ctx, keys.Task("pending"), "msg", "\xff"))
}

// Removing a queue deletes all of its keys.
func TestRemoveQueue(t *testing.T) {
	for _, ours := range []bool{true, false} {
		t.Run(fmt.Sprintf("paused by others: %v", !ours), func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				ctx, b := context.Background(), r.Broker()
				in := inspect.New(b)
				r.Make(t, redistest.NewTask(t, "q2", "other"))
				want := slices.DeleteFunc(r.Dump(t), func(line string) bool { return strings.HasPrefix(line, "asynq:queues") })
				seedChanges(t, r)
				litter(t, r)
				if !ours {
					if _, err := in.Pause(ctx, "q"); err != nil {
						t.Fatal(err)
					}
				}
				redistest.Unchanged(t, r, "a refused removal", func() {
					if err := in.RemoveQueue(ctx, "q", false); !errors.Is(err, script.ErrQueueNonempty) {
						t.Errorf("without force: %v", err)
					}
					if err := in.RemoveQueue(ctx, "q", true); !errors.Is(err, script.ErrTaskActive) {
						t.Errorf("with an active task: %v", err)
					}
				})
				if code := redistest.Settle(t, b, rdb.Settlement{ID: "active", Token: activeToken(t, r), Outcome: rdb.Retry}); code != script.CodeOK {
					t.Fatal(code)
				}
				orphans(t, r)
				if err := in.RemoveQueue(ctx, "q", true); err != nil {
					t.Error(err)
				}
				if left := r.Client().Keys(ctx, "asynq:{q}:*").Val(); len(left) > 0 {
					t.Errorf("it left %q", left)
				}
				redistest.WantDump(t, r, "asynq:queues = {q2}\n"+strings.Join(want, "\n"))
				if err := in.RemoveQueue(ctx, "q", true); err != nil {
					t.Errorf("once more: %v", err)
				}
			})
		})
	}
}

func activeToken(t *testing.T, r *redistest.Redis) string {
	t.Helper()
	return r.Client().HGet(context.Background(), "asynq:{q}:t:active", "token").Val()
}

func TestRemoveEmptyQueue(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		in := inspect.New(b)
		r.Enqueue(t, "q", 1)
		f := r.Fetch(t, "q", 1)
		if err := in.RemoveQueue(ctx, "q", false); !errors.Is(err, script.ErrQueueNonempty) {
			t.Errorf("with an active task: %v", err)
		}
		if code := redistest.Settle(t, b, rdb.Settlement{ID: "t1", Token: f.Token, Outcome: rdb.Done}); code != script.CodeOK {
			t.Fatal(code)
		}
		litter(t, r)
		if err := in.RemoveQueue(ctx, "q", false); err != nil {
			t.Error(err)
		}
		redistest.WantDump(t, r, "")
		if left := r.Client().Keys(ctx, "*").Val(); len(left) > 0 {
			t.Errorf("it left %q", left)
		}
	})
}

// A task enqueued during the removal of its queue is either deleted with it or in a queue that is
// registered again.
func TestRemoveQueueWhileOthersEnqueue(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx := context.Background()
		seedChanges(t, r)
		if code := redistest.Settle(t, r.Broker(), rdb.Settlement{ID: "active", Token: activeToken(t, r), Outcome: rdb.Done}); code != script.CodeOK {
			t.Fatal(code)
		}
		client := r.Broker() // has published the queue's name, and does not repeat it for 30 seconds
		made := 0
		enqueue := func() {
			for range 3 {
				made++
				task := redistest.Lock(redistest.NewTask(t, "q", fmt.Sprint("new", made)), fmt.Sprint("new", made))
				task.ProcessAt = int64(made % 2 * 2_000_000_000)
				if made%5 == 0 {
					task.Group, task.ProcessAt = "new", 0
				}
				if client.Enqueue(ctx, task); task.Err != nil {
					t.Error(task.Err)
				}
			}
		}
		var late []string
		calls := &enqueuer{calls: map[string]func(){
			"evalsha": func() {
				if made < 60 {
					enqueue()
				}
			},
			"srem": func() {
				enqueue()
				late = r.Client().Keys(ctx, "asynq:{q}:t:*").Val()
			},
		}}
		c := redis.NewClient(&redis.Options{Addr: r.Addr, DB: r.DB})
		t.Cleanup(func() { _ = c.Close() })
		c.AddHook(calls)
		if err := inspect.New(rdb.New(c, "")).RemoveQueue(ctx, "q", true); err != nil {
			t.Error(err)
		}
		if left := r.Client().Keys(ctx, "asynq:{q}:t:*").Val(); made < 60 || len(left) != 3 || len(late) != 3 {
			t.Errorf("of %d tasks %q are left", made, left)
		}
		if known := r.Client().SIsMember(ctx, "asynq:queues", "q").Val(); !known {
			t.Error("the queue holds tasks and is not known")
		}
	})
}

// A task enqueued before any one of the script calls of a removal is deleted with the queue.
func TestRemoveQueueWithALateTask(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, keys := context.Background(), r.Broker().Keys("q")
		for late, calls := 1, 1; late <= calls; late++ {
			r.Make(t, redistest.NewTask(t, "q", "first"))
			calls = 0
			c := redis.NewClient(&redis.Options{Addr: r.Addr, DB: r.DB})
			c.AddHook(&enqueuer{calls: map[string]func(){
				"scan": func() { redistest.Must(t, r.Client().Set(ctx, keys.Import("each"), 1, time.Minute)) },
				"evalsha": func() {
					if calls++; calls == late {
						r.Make(t, redistest.Lock(redistest.NewTask(t, "q", "late"), "late"))
					}
				},
			}})
			redistest.NoError(t, inspect.New(rdb.New(c, "")).RemoveQueue(ctx, "q", true))
			redistest.NoError(t, c.Close())
			if left := r.Client().Keys(ctx, "*").Val(); len(left) > 0 || calls < 4 {
				t.Errorf("call %d of %d left %q", late, calls, left)
				redistest.Must(t, r.Client().FlushDB(ctx))
			}
		}
	})
}

// enqueuer is a hook that calls a function before some commands.
type enqueuer struct {
	restless
	calls map[string]func()
}

func (h *enqueuer) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if f := h.calls[cmd.Name()]; f != nil {
			f()
		}
		return next(ctx, cmd)
	}
}

// An incomplete removal leaves a paused queue without tasks. Its error says to repeat it, and
// another call completes it.
func TestRemoveQueueThatFails(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, cancel := context.WithCancel(context.Background())
		fillSource(t, r, sources(r.Broker().Keys("q"))["scheduled"], 1500)
		calls := 0
		b := restlessBroker(t, r, func() {
			if calls++; calls == 5 {
				cancel()
			}
		})
		err := inspect.New(b).RemoveQueue(ctx, "q", true)
		if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "the queue is paused and partly deleted: delete it again") {
			t.Fatal(err)
		}
		ctx = context.Background()
		if ttl := r.Client().TTL(ctx, b.Keys("q").Paused()).Val(); ttl != -1 {
			t.Errorf("it is paused for %v", ttl)
		}
		if listed, left := r.Client().ZCard(ctx, b.Keys("q").Scheduled()).Val(), len(r.Client().Keys(ctx, b.Keys("q").TaskPrefix()+"*").Val()); listed > 0 || left == 0 || left == 1500 {
			t.Errorf("%d tasks are listed, and %d are left", listed, left)
		}
		if err := inspect.New(r.Broker()).RemoveQueue(ctx, "q", true); err != nil {
			t.Error(err)
		}
		redistest.WantDump(t, r, "")
	})
}

// The tasks of a queue can be deleted when Redis is full.
func TestChangesOfAFullRedis(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t, "--maxmemory-policy", "noeviction")
	ctx, client := context.Background(), s.Client(t)
	b := rdb.New(client, "")
	in := inspect.New(b)
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		task := redistest.Lock(redistest.NewTask(t, "q", id), id)
		task.ProcessAt = 2_000_000_000
		if b.Enqueue(ctx, task); task.Err != nil {
			t.Fatal(task.Err)
		}
	}
	redistest.Must(t, client.ConfigSet(ctx, "maxmemory", "1"))
	for i, verb := range verbs {
		id := string(rune('a' + i))
		if codes, err := apply(b, verb, id); err != nil || codes[0] != script.CodeOK {
			t.Errorf("%s: codes %v, error %v", id, codes, err)
		}
	}
	redistest.CheckServer(t, client)
	if err := in.RemoveQueue(ctx, "q", true); err != nil {
		t.Error(err)
	}
	if left := client.Keys(ctx, "*").Val(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}
