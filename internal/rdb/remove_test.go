package rdb_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
)

// litter leaves in queue q whatever other processes may leave, or break.
func litter(t *testing.T, r *redistest.Redis) {
	t.Helper()
	ctx, client := context.Background(), r.Client()
	keys := r.Broker().Keys("q")
	must(t, client.Set(ctx, keys.Unique("orphan", nil), "gone", time.Hour))
	must(t, client.LPush(ctx, keys.Unique("list", nil), "x"))
	must(t, client.Set(ctx, keys.Rouse("p"), 1, time.Minute))
	must(t, client.Set(ctx, keys.Answer("s-1-0"), "1:0", time.Minute))
	must(t, client.Set(ctx, keys.Import("x"), "1", time.Minute))
	must(t, client.Set(ctx, keys.Task("text"), 1, 0))
	for i, state := range []string{"pending", "active", "scheduled", "retry", "archived", "completed", "aggregating", "nonsense"} {
		id := fmt.Sprint("lost", i)
		must(t, client.HSet(ctx, keys.Task(id), "state", state, "group", "g", "unique_key", keys.Unique(id, nil)))
		must(t, client.Set(ctx, keys.Unique(id, nil), id, 0))
	}
	now := time.Now()
	for _, days := range []int{-1, 0, 1, 45, 89, 90, 91} {
		must(t, client.Set(ctx, keys.ProcessedOn(now.AddDate(0, 0, -days)), 1, time.Hour))
		must(t, client.Set(ctx, keys.FailedOn(now.AddDate(0, 0, -days)), 1, time.Hour))
	}
}

// strays leaves IDs without tasks, and names without groups, in the collections of queue q.
func strays(t *testing.T, r *redistest.Redis) {
	t.Helper()
	ctx, client := context.Background(), r.Client()
	keys := r.Broker().Keys("q")
	must(t, client.LPush(ctx, keys.Pending(), "stray", "stray"))
	for _, key := range []string{keys.Scheduled(), keys.Retry(), keys.Archived(), keys.Completed(), keys.Group("g"), keys.Group("nameless"), keys.Lease()} {
		must(t, client.ZAdd(ctx, key, redis.Z{Score: 1, Member: "stray"}, redis.Z{Score: 1, Member: "scheduled"}))
	}
	must(t, client.SAdd(ctx, keys.Groups(), "empty"))
	must(t, client.ZAdd(ctx, keys.AggregationSets(),
		redis.Z{Score: 1, Member: keys.AggregationSet("g", "empty")}, redis.Z{Score: 1, Member: "elsewhere"}))
	must(t, client.HSet(ctx, keys.Task("aggregatingG"), "group", "another"))
	must(t, client.HSet(ctx, keys.Task("pending"), "msg", "\xff"))
}

// A queue that is removed leaves nothing at all.
func TestRemoveQueue(t *testing.T) {
	for _, ours := range []bool{true, false} {
		t.Run(fmt.Sprintf("paused by others: %v", !ours), func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				ctx, b := context.Background(), r.Broker()
				r.Make(t, redistest.NewTask(t, "q2", "other"))
				want := slices.DeleteFunc(r.Dump(t), func(line string) bool { return strings.HasPrefix(line, "asynq:queues") })
				seedChanges(t, r)
				litter(t, r)
				if !ours {
					if _, err := b.Pause(ctx, "q"); err != nil {
						t.Fatal(err)
					}
				}
				unchanged(t, r, "a refused removal", func() {
					if err := b.RemoveQueue(ctx, "q", false); !errors.Is(err, rdb.ErrQueueNonempty) {
						t.Errorf("without force: %v", err)
					}
					if err := b.RemoveQueue(ctx, "q", true); !errors.Is(err, rdb.ErrTaskActive) {
						t.Errorf("with an active task: %v", err)
					}
				})
				if code := settle(t, b, rdb.Settlement{ID: "active", Token: activeToken(t, r), Outcome: rdb.Retry}); code != rdb.CodeOK {
					t.Fatal(code)
				}
				strays(t, r)
				if err := b.RemoveQueue(ctx, "q", true); err != nil {
					t.Error(err)
				}
				if left := r.Client().Keys(ctx, "asynq:{q}:*").Val(); len(left) > 0 {
					t.Errorf("it left %q", left)
				}
				wantDump(t, r, "asynq:queues = {q2}\n"+strings.Join(want, "\n"))
				if err := b.RemoveQueue(ctx, "q", true); err != nil {
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
		r.Enqueue(t, "q", 1)
		f := r.Fetch(t, "q", 1)
		if err := b.RemoveQueue(ctx, "q", false); !errors.Is(err, rdb.ErrQueueNonempty) {
			t.Errorf("with an active task: %v", err)
		}
		if code := settle(t, b, rdb.Settlement{ID: "t1", Token: f.Token, Outcome: rdb.Done}); code != rdb.CodeOK {
			t.Fatal(code)
		}
		litter(t, r)
		if err := b.RemoveQueue(ctx, "q", false); err != nil {
			t.Error(err)
		}
		wantDump(t, r, "")
		if left := r.Client().Keys(ctx, "*").Val(); len(left) > 0 {
			t.Errorf("it left %q", left)
		}
	})
}

// Whatever a client enqueues while a queue is removed is gone with it, or in a queue that is known again.
func TestRemoveQueueWhileOthersEnqueue(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx := context.Background()
		seedChanges(t, r)
		if code := settle(t, r.Broker(), rdb.Settlement{ID: "active", Token: activeToken(t, r), Outcome: rdb.Done}); code != rdb.CodeOK {
			t.Fatal(code)
		}
		client := r.Broker() // has told the name of the queue, and will not do so again for half a minute
		made := 0
		enqueue := func() {
			for range 3 {
				made++
				task := lock(redistest.NewTask(t, "q", fmt.Sprint("new", made)), fmt.Sprint("new", made))
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
		if err := rdb.New(c, "").RemoveQueue(ctx, "q", true); err != nil {
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

// enqueuer has something done before commands of some names.
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

// A removal that does not come to its end leaves a queue that is paused for a while and otherwise sound, and can be removed later.
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
		if err := b.RemoveQueue(ctx, "q", true); err == nil {
			t.Fatal("it did not fail")
		}
		ctx = context.Background()
		if ttl := r.Client().TTL(ctx, b.Keys("q").Paused()).Val(); ttl < time.Second || ttl > 30*time.Second {
			t.Errorf("it is paused for %v", ttl)
		}
		r.Check(t)
		if left := r.Client().ZCard(ctx, b.Keys("q").Scheduled()).Val(); left == 0 || left == 1500 {
			t.Errorf("%d tasks are left", left)
		}
		if err := r.Broker().RemoveQueue(ctx, "q", true); err != nil {
			t.Error(err)
		}
		wantDump(t, r, "")
	})
}

// A queue can be emptied where Redis is full.
func TestChangesOfAFullRedis(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t, "--maxmemory-policy", "noeviction")
	ctx, client := context.Background(), s.Client(t)
	b := rdb.New(client, "")
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		task := lock(redistest.NewTask(t, "q", id), id)
		task.ProcessAt = 2_000_000_000
		if b.Enqueue(ctx, task); task.Err != nil {
			t.Fatal(task.Err)
		}
	}
	must(t, client.ConfigSet(ctx, "maxmemory", "1"))
	for i, change := range []changeFunc{b.RunTasks, b.ArchiveTasks, reschedule(b), b.DeleteTasks} {
		id := string(rune('a' + i))
		if codes, err := change(ctx, "q", []string{id}); err != nil || codes[0] != rdb.CodeOK {
			t.Errorf("%s: codes %v, error %v", id, codes, err)
		}
	}
	checkServer(t, client)
	if err := b.RemoveQueue(ctx, "q", true); err != nil {
		t.Error(err)
	}
	if left := client.Keys(ctx, "*").Val(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}
