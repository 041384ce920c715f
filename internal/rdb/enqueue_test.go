package rdb_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/inspect"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/script"
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
		locked := redistest.Lock(redistest.NewTask(t, "q", "d"), "d")
		other := redistest.NewTask(t, "r", "a")
		r.Make(t, redistest.NewTask(t, "q", "a"), delayed, later, grouped, locked, redistest.NewTask(t, "q", "e"), other)
		redistest.WantDump(t, r, `
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

// kindsOfTask returns one task for each script that creates tasks, all with the same ID and lock.
func kindsOfTask(t *testing.T) map[string]*rdb.NewTask {
	pending := redistest.Lock(redistest.NewTask(t, "q", "a"), "x")
	scheduled := redistest.Lock(redistest.NewTask(t, "q", "a"), "x")
	scheduled.ProcessAt = time.Now().Add(time.Hour).Unix()
	grouped := redistest.Lock(redistest.NewTask(t, "q", "a"), "x")
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
					{"the same ID and lock", func(*rdb.NewTask) {}, script.ErrDuplicateTask},
					{"the same ID without a lock", func(n *rdb.NewTask) { n.Lock = "" }, script.ErrTaskIDConflict},
					{"the same ID with a lock of its own", func(n *rdb.NewTask) { redistest.Lock(n, "y") }, script.ErrTaskIDConflict},
					{"the same lock", func(n *rdb.NewTask) { n.ID = "b" }, script.ErrDuplicateTask},
				} {
					redistest.Unchanged(t, r, tt.name, func() {
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

// A call whose reply was lost is retried and must return the result of the first attempt.
func TestEnqueueRepeated(t *testing.T) {
	for name, task := range kindsOfTask(t) {
		t.Run(name, func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				ctx, b := context.Background(), redistest.RepeatingBroker(t, r)
				taken := redistest.Lock(redistest.NewTask(t, "q", "taken"), "taken")
				r.Make(t, taken)
				first, conflict, duplicate := *task, *task, *task
				conflict.ID, conflict.Lock = "taken", ""
				duplicate.ID, duplicate.Lock = "b", taken.Lock
				b.Enqueue(ctx, &conflict, &first, &duplicate)
				if first.Err != nil || !errors.Is(conflict.Err, script.ErrTaskIDConflict) || !errors.Is(duplicate.Err, script.ErrDuplicateTask) {
					t.Errorf("errors: %v, %v, %v", first.Err, conflict.Err, duplicate.Err)
				}
				again := *task
				if b.Enqueue(ctx, &again); !errors.Is(again.Err, script.ErrDuplicateTask) {
					t.Errorf("another call with the same task: %v", again.Err)
				}
			})
		})
	}
}

// The first attempt may reach Redis so late that it would create its tasks again: after the
// sender's next call, which proves that the sender gave it up.
func TestEnqueueLingering(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx := context.Background()
		b, recorded := redistest.RecordingBroker(t, r)
		for _, id := range []string{"a", "b"} {
			b.Enqueue(ctx, redistest.NewTask(t, "q", id))
			f := r.Fetch(t, "q", 1)
			redistest.Settle(t, b, rdb.Settlement{ID: id, Token: f.Token, Outcome: rdb.Done})
		}
		first := recorded.Calls["enqueue"][0]
		redistest.Unchanged(t, r, "a call that lingered", func() {
			args := append([]any{"evalsha", first.SHA, len(first.Keys)}, append(first.Keys, first.Args...)...)
			codes, err := r.Client().Do(ctx, args...).Int64Slice()
			if err != nil || !slices.Equal(codes, []int64{int64(script.CodeStale)}) {
				t.Errorf("it is answered %v, error %v", codes, err)
			}
		})
	})
}

// INCR advances a record, keeps its TTL, and creates it without one. So every record must have a
// TTL and protect its call, also after Redis has lost it or it held codes.
func TestEnqueueRecord(t *testing.T) {
	for _, random := range []bool{false, true} {
		t.Run(fmt.Sprintf("random=%t", random), func(t *testing.T) { testEnqueueRecord(t, random) })
	}
}

func testEnqueueRecord(t *testing.T, randomID bool) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx := context.Background()
		b, recorded := redistest.RecordingBroker(t, r)
		check := func(want string) {
			t.Helper()
			key := recorded.Calls["enqueue"][0].Keys[2].(string)
			if got, ttl := r.Client().Get(ctx, key).Val(), r.Client().TTL(ctx, key).Val(); got != want || ttl < 100*time.Second {
				t.Errorf("the record is %q with a TTL of %v, want %q", got, ttl, want)
			}
			last := recorded.Calls["enqueue"][len(recorded.Calls["enqueue"])-1]
			redistest.Unchanged(t, r, "the same call again", func() {
				args := append([]any{"evalsha", last.SHA, len(last.Keys)}, append(last.Keys, last.Args...)...)
				if err := r.Client().Do(ctx, args...).Err(); err != nil {
					t.Error(err)
				}
			})
		}
		enqueue := func(ids ...string) {
			t.Helper()
			tasks := make([]*rdb.NewTask, len(ids))
			for i, id := range ids {
				tasks[i] = redistest.NewTask(t, "q", id)
				tasks[i].RandomID = randomID && id != "b" // which is enqueued twice
			}
			b.Enqueue(ctx, tasks...)
		}
		enqueue("a")
		check("2")
		enqueue("b")
		check("3")
		enqueue("b", "c")
		check("4:40")
		enqueue("d")
		check("5")
		redistest.Must(t, r.Client().Del(ctx, recorded.Calls["enqueue"][0].Keys[2].(string)))
		enqueue("e", "f")
		check("6")
		if n := r.Client().LLen(ctx, "asynq:{q}:pending").Val(); n != 6 {
			t.Errorf("%d tasks are pending, want 6", n)
		}
	})
}

// If a task's ID is in use and its lock is held, Enqueue reports the lock, whichever task holds it.
func TestEnqueueConflictOfIDAndLock(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx := context.Background()
		r.Make(t, redistest.Lock(redistest.NewTask(t, "q", "a"), "x"), redistest.Lock(redistest.NewTask(t, "q", "b"), "y"))
		redistest.Unchanged(t, r, "the enqueue", func() {
			own := redistest.Lock(redistest.NewTask(t, "q", "a"), "x")
			others := redistest.Lock(redistest.NewTask(t, "q", "a"), "y")
			r.Broker().Enqueue(ctx, own, others)
			if !errors.Is(own.Err, script.ErrDuplicateTask) || !errors.Is(others.Err, script.ErrDuplicateTask) {
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
				redistest.Must(t, r.Client().Set(ctx, task.Lock, "gone", 0))
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
		task := redistest.Lock(redistest.NewTask(t, "q", "a"), "x")
		redistest.Must(t, r.Client().LPush(ctx, task.Lock, "something"))
		redistest.Must(t, r.Client().SAdd(ctx, "asynq:queues", "q"))
		redistest.Unchanged(t, r, "the enqueue", func() {
			if r.Broker().Enqueue(ctx, task); !errors.Is(task.Err, script.ErrDuplicateTask) {
				t.Errorf("got %v", task.Err)
			}
		})
	})
}

func TestEnqueueLockWithoutTTLGetsTheShortest(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		task := redistest.Lock(redistest.NewTask(t, "q", "a"), "x")
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
				if first.Err != nil || !errors.Is(locked.Err, script.ErrDuplicateTask) || !errors.Is(conflict.Err, script.ErrTaskIDConflict) {
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
			redistest.Must(t, r.Client().Del(ctx, "asynq:{q}:marker"))
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
		redistest.Must(t, r.Client().Del(ctx, "asynq:queues"))
		b.Enqueue(ctx, redistest.NewTask(t, "q", "b"))
		if n := r.Client().Exists(ctx, "asynq:queues").Val(); n != 0 {
			t.Error("the name of a queue is published with every task")
		}
	})
}

func TestEnqueueWhenQueuesCannotBePublished(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		redistest.Must(t, r.Client().Set(context.Background(), "asynq:queues", "of a wrong type", 0))
		r.Make(t, redistest.NewTask(t, "q", "a"))
	})
}

// later collects the functions that a broker defers.
type later struct {
	delays []time.Duration
	calls  []func()
}

func (l *later) add(d time.Duration, f func()) {
	l.delays, l.calls = append(l.delays, d), append(l.calls, f)
}

// run does it.
func (l *later) run() {
	for _, f := range l.calls {
		f()
	}
	l.delays, l.calls = nil, nil
}

// If another process removes a queue, a client that published it before publishes it again within a
// second of its next use.
func TestQueueThatIsUsedAgainIsAnnouncedAgain(t *testing.T) {
	ctx, at := context.Background(), time.Now().Add(time.Hour).Unix()
	for name, enqueue := range map[string]func(t *testing.T, b *rdb.Broker, id string){
		"one":       func(t *testing.T, b *rdb.Broker, id string) { b.Enqueue(ctx, redistest.NewTask(t, "q", id)) },
		"scheduled": func(t *testing.T, b *rdb.Broker, id string) { enqueueTo(t, b, id, at, "") },
		"in group":  func(t *testing.T, b *rdb.Broker, id string) { enqueueTo(t, b, id, 0, "g") },
		"many": func(t *testing.T, b *rdb.Broker, id string) {
			b.Enqueue(ctx, redistest.NewTask(t, "q", id), redistest.NewTask(t, "other", id), redistest.NewTask(t, "q", id)) // a conflict
		},
		"tick":           func(t *testing.T, b *rdb.Broker, id string) { tickTo(t, b, id, 0, "") },
		"tick scheduled": func(t *testing.T, b *rdb.Broker, id string) { tickTo(t, b, id, at, "") },
		"tick in group":  func(t *testing.T, b *rdb.Broker, id string) { tickTo(t, b, id, 0, "g") },
	} {
		t.Run(name, func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				var l later
				b := r.Broker()
				b.Later = l.add
				listed := func() bool { return r.Client().SIsMember(ctx, "asynq:queues", "q").Val() }
				remove := func() {
					t.Helper()
					redistest.NoError(t, inspect.New(rdb.New(r.Client(), "")).RemoveQueue(ctx, "q", true))
				}
				enqueue(t, b, "a")
				if len(l.calls) > 0 || !listed() {
					t.Fatalf("the first task: %d calls are left for later, the queue is listed: %t", len(l.calls), listed())
				}
				remove()
				enqueue(t, b, "b")
				if len(l.calls) == 0 || l.delays[0] > time.Second {
					t.Fatalf("the queue is announced after %v, want within a second", l.delays)
				}
				l.run()
				if !listed() {
					t.Error("the queue that is used again is not listed")
				}
				enqueue(t, b, "c")
				if len(l.calls) > 0 {
					t.Error("a queue that is not empty is announced again")
				}
				remove()
				enqueue(t, b, "d")
				remove()
				l.run()
				if listed() {
					t.Error("a queue that was removed again is listed")
				}
			})
		})
	}
}

// On a Cluster, the name of a queue is added beside its first task. Enqueue returns after both.
func TestQueueIsListedAfterItsFirstTaskOnCluster(t *testing.T) {
	t.Parallel()
	client := clusterClient(t)
	adding := &slowListing{created: make(chan struct{})}
	client.AddHook(adding)
	b := rdb.New(client, "")
	b.Later = func(d time.Duration, f func()) { time.AfterFunc(d, f) }
	enqueueTo(t, b, "a", 0, "")
	if !adding.added.Load() {
		t.Error("Enqueue returned before the queue was listed")
	}
}

// The shard of the set of queues may hang while that of the queue is up.
func TestEnqueueWhileTheSetOfQueuesHangs(t *testing.T) {
	t.Parallel()
	b := rdb.New(clusterClient(t), "")
	b.Later = func(time.Duration, func()) {} // never
	began := time.Now()
	for i := range 50 {
		enqueueTo(t, b, strconv.Itoa(i), 0, "")
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("50 tasks took %v: only the first one waits", took)
	}
}

// slowListing is a hook that adds names to the set of queues after a task was created.
type slowListing struct {
	created chan struct{}
	added   atomic.Bool
}

func (*slowListing) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *slowListing) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "sadd" {
			return next(ctx, cmd)
		}
		<-s.created
		err := next(ctx, cmd)
		s.added.Store(err == nil)
		return err
	}
}

func (s *slowListing) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		if cmds[0].Name() == "eval" && cmds[0].Err() == nil {
			close(s.created)
		}
		return err
	}
}

func enqueueTo(t *testing.T, b *rdb.Broker, id string, processAt int64, group string) {
	t.Helper()
	task := redistest.NewTask(t, "q", id)
	task.ProcessAt, task.Group = processAt, group
	b.Enqueue(context.Background(), task)
	if task.Err != nil {
		t.Fatal(task.Err)
	}
}

func tickTo(t *testing.T, b *rdb.Broker, id string, processAt int64, group string) {
	t.Helper()
	task := redistest.NewTask(t, "q", id)
	task.ProcessAt, task.Group = processAt, group
	task.Tick = &rdb.Tick{Entry: "entry of " + id, At: 1, Deadline: time.Now().Add(time.Hour).UnixMilli()}
	b.Enqueue(context.Background(), task)
	if task.Err != nil {
		t.Fatal(task.Err)
	}
}
