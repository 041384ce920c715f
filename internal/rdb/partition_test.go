package rdb_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/script"
)

// keyedTask returns a new task of a partition.
func keyedTask(t testing.TB, key, id string) *rdb.NewTask {
	t.Helper()
	m := redistest.Message("q", id)
	m.SetPartitionKey(key)
	return &rdb.NewTask{ID: id, Queue: "q", Message: redistest.Encode(t, m)}
}

// makeKeyed enqueues tasks of a partition, in batches.
func makeKeyed(t testing.TB, r *redistest.Redis, key string, ids ...string) {
	t.Helper()
	for part := range slices.Chunk(ids, script.MaxBatch) {
		var tasks []*rdb.NewTask
		for _, id := range part {
			tasks = append(tasks, keyedTask(t, key, id))
		}
		r.Make(t, tasks...)
	}
}

func manyIDs(prefix string, n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprintf("%s%05d", prefix, i))
	}
	return ids
}

// fetchPartitions fetches as a server with partitions does.
func fetchPartitions(t *testing.T, r *redistest.Redis, p rdb.Partitions, f rdb.Fetch) *rdb.Fetch {
	t.Helper()
	f.Partitions = &p
	return redistest.Fetch(t, r.Broker(), f)
}

// fetchAll fetches until no more tasks may start, in at most a number of calls.
func fetchAll(t *testing.T, r *redistest.Redis, p rdb.Partitions, n, calls int) (ids []string) {
	t.Helper()
	for range calls {
		f := fetchPartitions(t, r, p, rdb.Fetch{N: n})
		if f.Err != nil || f.Code != script.CodeOK {
			t.Fatalf("code %d, error %v", f.Code, f.Err)
		}
		if ids = append(ids, redistest.IDs(f)...); !f.More {
			return ids
		}
	}
	t.Errorf("after %d fetches of %d tasks more may start; %d have", calls, n, len(ids))
	return ids
}

func settleAll(t *testing.T, r *redistest.Redis, ids ...string) {
	t.Helper()
	var all []*rdb.Settlement
	for _, id := range ids {
		all = append(all, &rdb.Settlement{Queue: "q", ID: id, Token: "f", Outcome: rdb.Done})
	}
	for part := range slices.Chunk(all, script.MaxBatch) {
		r.Broker().RoundTrip(context.Background(), &rdb.RoundTrip{Settle: part})
	}
	for _, s := range all {
		if s.Err != nil || s.Code != script.CodeOK {
			t.Fatalf("task %s: code %d, error %v", s.ID, s.Code, s.Err)
		}
	}
}

// checkNow makes servers check the limits of a partition now.
func checkNow(t *testing.T, r *redistest.Redis, key string) {
	t.Helper()
	redistest.Must(t, r.Client().Do(context.Background(), "ZADD", "asynq:{q}:partitions:blocked", "XX", "0", key))
}

func setPartition(t *testing.T, r *redistest.Redis, key, settings string) {
	t.Helper()
	redistest.Must(t, r.Client().HSet(context.Background(), "asynq:{q}:partitions:settings", key, settings))
}

// A limit of the queue does not slow the sorting of its inbox: servers wait at the limit, but only
// if it has limited them.
func TestPartitionsSortLongInboxOfCappedQueue(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		makeKeyed(t, r, "a", manyIDs("a", 1200)...)
		for i := range 2 {
			f := fetchPartitions(t, r, rdb.Partitions{}, rdb.Fetch{N: 10, MaxActive: 2})
			if f.Code != script.CodeOK || !f.More || len(f.Tasks) > 0 {
				t.Errorf("fetch %d: %+v", i, f)
			}
		}
		f := fetchPartitions(t, r, rdb.Partitions{}, rdb.Fetch{N: 10, MaxActive: 2})
		if f.Code != script.CodeCapped || len(f.Tasks) != 2 {
			t.Errorf("got %+v", f)
		}
		setPartition(t, r, "a", "paused=1")
		settleAll(t, r, redistest.IDs(f)...)
		if f := fetchPartitions(t, r, rdb.Partitions{}, rdb.Fetch{N: 10, MaxActive: 2}); f.Code != script.CodeOK || len(f.Tasks) > 0 {
			t.Errorf("the partition is paused: %+v", f)
		}
	})
}

// Partitions that have become idle do not make servers fetch again and again while another one is
// blocked.
func TestIdlePartitionsAreForgotten(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		const n = 2500
		setPartition(t, r, "paused", "paused=1")
		makeKeyed(t, r, "paused", "p")
		for i := 0; i < n; i += 500 {
			var tasks []*rdb.NewTask
			for j := i; j < i+500; j++ {
				id := fmt.Sprintf("t%05d", j)
				tasks = append(tasks, keyedTask(t, id, id))
			}
			r.Make(t, tasks...)
		}
		ids := fetchAll(t, r, rdb.Partitions{}, 500, 20)
		if len(ids) != n {
			t.Errorf("%d tasks started, want %d", len(ids), n)
		}
		settleAll(t, r, ids...)
		fetchAll(t, r, rdb.Partitions{}, 10, 4)
		if names := r.Client().ZCard(context.Background(), "asynq:{q}:partitions:ready").Val(); names != 0 {
			t.Errorf("%d idle partitions are left", names)
		}
	})
}

// A limit holds even if the place of each of the first tasks is free.
func TestPartitionLimitWithManyEndedTasks(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ids := manyIDs("a", 1500)
		makeKeyed(t, r, "a", ids...)
		if started := fetchAll(t, r, rdb.Partitions{}, 500, 10); len(started) != len(ids) {
			t.Fatalf("%d tasks started", len(started))
		}
		settleAll(t, r, ids[:1000]...) // by a server that dies before its next fetch
		makeKeyed(t, r, "a", "last")
		p := rdb.Partitions{Limits: "concurrency=500"}
		fetchAll(t, r, p, 10, 3)
		checkNow(t, r, "a")
		if started := fetchAll(t, r, p, 10, 3); len(started) > 0 {
			t.Errorf("%v started while 500 tasks of the partition run", started)
		}
		settleAll(t, r, ids[1000])
		checkNow(t, r, "a")
		if started := fetchAll(t, r, p, 10, 3); len(started) != 1 {
			t.Errorf("%v started, want one task", started)
		}
	})
}

// A key of another type makes a fetch fail before it changes anything.
func TestPartitionKeysOfAnotherType(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		makeKeyed(t, r, "a", "a1", "a2")
		for _, name := range []string{"held", "ready", "blocked", "running", "rates", "clock", "settings"} {
			key := "asynq:{q}:partitions:" + name
			redistest.Must(t, r.Client().Set(context.Background(), key, "text", 0))
			redistest.Unchanged(t, r, name, func() {
				for _, limits := range []string{"", "concurrency=1 interval=1000 burst=1"} {
					f := fetchPartitions(t, r, rdb.Partitions{Limits: limits}, rdb.Fetch{N: 10, Sweep: limits != ""})
					if !script.Refused(f.Err) {
						t.Errorf("%s: %+v", name, f)
					}
				}
			})
			redistest.Must(t, r.Client().Del(context.Background(), key))
		}
	})
}

// No key of the partitions lasts without a TTL, and no rate longer than it limits.
func TestPartitionKeysExpire(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, p := context.Background(), rdb.Partitions{Limits: "interval=1 burst=1"}
		makeKeyed(t, r, "many", manyIDs("m", 300)...)
		fetchAll(t, r, rdb.Partitions{}, 500, 3)
		fetchPartitions(t, r, p, rdb.Fetch{N: 1, Sweep: true})
		for i := range 20 {
			id := fmt.Sprint("r", i)
			makeKeyed(t, r, id, id)
			fetchAll(t, r, p, 10, 3)
		}
		if n := r.Client().ZCard(ctx, "asynq:{q}:partitions:rates").Val(); n > 3 {
			t.Errorf("%d rates are stored", n)
		}
		for _, key := range r.Client().Keys(ctx, "asynq:{q}:partitions:*").Val() {
			if ttl := r.Client().TTL(ctx, key).Val(); ttl < 47*time.Hour || ttl > 48*time.Hour {
				t.Errorf("%s has the TTL %v", key, ttl)
			}
		}
	})
}

// In order, the next task of a partition waits for one that is delayed, whatever the settings of
// the partition.
func TestOrderedPartitionWaitsForDelayedTask(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		p := rdb.Partitions{Limits: "concurrency=1", Ordered: true}
		setPartition(t, r, "a", "concurrency=5")
		makeKeyed(t, r, "a", "a1", "a2", "a3")
		if ids := fetchAll(t, r, p, 10, 3); !slices.Equal(ids, []string{"a1"}) {
			t.Fatalf("%v started", ids)
		}
		redistest.Settle(t, r.Broker(), rdb.Settlement{
			ID: "a1", Token: "f", Outcome: rdb.Defer, Delay: time.Hour, Message: keyedTask(t, "a", "a1").Message,
		})
		for range 2 {
			checkNow(t, r, "a")
			if f := fetchPartitions(t, r, p, rdb.Fetch{N: 10, Sweep: true}); len(f.Tasks) > 0 {
				t.Errorf("%v started before a1", redistest.IDs(f))
			}
		}
	})
}

// Tasks that were held for a day return to their places.
func TestHeldForADay(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx := context.Background()
		p, ids := rdb.Partitions{Limits: "concurrency=1", Ordered: true}, []string{"g", "f", "e", "d", "c", "b", "a"}
		setPartition(t, r, "k", "paused=1")
		makeKeyed(t, r, "k", ids...)
		fetchAll(t, r, p, 10, 3)
		for _, some := range [][]string{{"b", "e", "f"}, ids} {
			for _, id := range some {
				redistest.Must(t, r.Client().Do(ctx, "ZADD", "asynq:{q}:scheduled", "XX", "1", id))
			}
			redistest.Forward(t, r.Broker())
			fetchAll(t, r, p, 10, 3)
		}
		for _, id := range []string{"b", "e", "f"} {
			redistest.Must(t, r.Client().Do(ctx, "ZADD", "asynq:{q}:scheduled", "XX", "1", id))
		}
		redistest.Forward(t, r.Broker())
		setPartition(t, r, "k", "")
		for i, id := range ids {
			checkNow(t, r, "k")
			if got := fetchAll(t, r, p, 10, 3); !slices.Equal(got, []string{id}) {
				t.Fatalf("task %d is %v, want %s", i, got, id)
			}
			settleAll(t, r, id)
		}
	})
}

// Lanes that are lost without their order delay no other partition.
func TestLostLanes(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, p := context.Background(), rdb.Partitions{}
		setPartition(t, r, "a", "paused=1")
		setPartition(t, r, "b", "paused=1")
		makeKeyed(t, r, "a", "a1")
		makeKeyed(t, r, "b", "b1")
		fetchAll(t, r, p, 10, 3)
		redistest.Must(t, r.Client().Do(ctx, "ZREM", "asynq:{q}:partitions:held",
			strings.Join([]string{r.Client().HGet(ctx, "asynq:{q}:t:a1", "held").Val(), "a1"}, "")))
		redistest.Must(t, r.Client().Do(ctx, "ZADD", "asynq:{q}:scheduled", "XX", "1", "a1"))
		redistest.Forward(t, r.Broker())
		setPartition(t, r, "a", "")
		checkNow(t, r, "a")
		started := fetchAll(t, r, p, 10, 3)
		setPartition(t, r, "b", "")
		checkNow(t, r, "b")
		if started = append(started, fetchAll(t, r, p, 10, 3)...); !slices.Equal(started, []string{"a1", "b1"}) {
			t.Errorf("%v started", started)
		}
	})
}

// If the clock of Redis is set back, a rate blocks its partition no longer than before.
func TestPartitionRateAfterClockWasSetBack(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, p := context.Background(), rdb.Partitions{Limits: "interval=1000 burst=1"}
		makeKeyed(t, r, "a", "a1", "a2")
		fetchPartitions(t, r, p, rdb.Fetch{N: 2})
		hence := time.Now().Add(time.Hour)
		redistest.Must(t, r.Client().Do(ctx, "ZADD", "asynq:{q}:partitions:blocked", hence.UnixMilli(), "a"))
		redistest.Must(t, r.Client().Do(ctx, "ZADD", "asynq:{q}:partitions:rates", hence.UnixMicro(), "a"))
		var f *rdb.Fetch
		for range 100 {
			if f = fetchPartitions(t, r, p, rdb.Fetch{N: 1}); len(f.Tasks) > 0 {
				return
			}
			if off := time.UnixMilli(f.Due).Sub(time.UnixMilli(f.Now)); off > time.Minute {
				t.Fatalf("servers check the limit in %v", off)
			}
			time.Sleep(time.Millisecond)
		}
		t.Errorf("no task started: %+v", f)
	})
}

// A task that returns from its place, to a queue that is partitioned in another way by now, leaves
// no place behind.
func TestHeldInAnotherPartition(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx := context.Background()
		setPartition(t, r, "a", "paused=1")
		makeKeyed(t, r, "a", "a1", "a2")
		fetchAll(t, r, rdb.Partitions{}, 10, 3)
		for _, id := range []string{"a1", "a2"} {
			redistest.Must(t, r.Client().Do(ctx, "ZADD", "asynq:{q}:scheduled", "XX", "1", id))
		}
		redistest.Forward(t, r.Broker())
		if ids := fetchAll(t, r, rdb.Partitions{ByType: true, Limits: "concurrency=1"}, 10, 3); !slices.Equal(ids, []string{"a1"}) {
			t.Errorf("%v started", ids)
		}
		if place, err := r.Client().HGet(ctx, "asynq:{q}:t:a1", "held").Result(); err == nil {
			t.Errorf("the active task has the place %q", place)
		}
		if n := r.Client().ZCard(ctx, "asynq:{q}:partitions:held").Val(); n != 1 {
			t.Errorf("there are %d places", n)
		}
	})
}
