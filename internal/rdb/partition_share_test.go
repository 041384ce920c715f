package rdb_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/script"
)

// startsByKey fetches n tasks in batches, settles them, and counts them by the first letter of
// their IDs, which is their partition.
func startsByKey(t *testing.T, r *redistest.Redis, p rdb.Partitions, n, batch int) map[byte]int {
	t.Helper()
	starts := map[byte]int{}
	for done := 0; done < n; {
		f := fetchPartitions(t, r, p, rdb.Fetch{N: min(batch, n-done)})
		if f.Err != nil || f.Code != script.CodeOK || len(f.Tasks) == 0 && !f.More {
			t.Fatalf("after %d tasks: %+v", done, f)
		}
		ids := redistest.IDs(f)
		for _, id := range ids {
			starts[id[0]]++
		}
		settleAll(t, r, ids...)
		done += len(ids)
	}
	return starts
}

// Starts are proportional to the weights, whatever waits and however many tasks a fetch requests.
func TestPartitionWeights(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		setPartition(t, r, "b", "weight=3")
		makeKeyed(t, r, "a", manyIDs("a", 1500)...)
		makeKeyed(t, r, "b", manyIDs("b", 900)...)
		for _, batch := range []int{1, 7, 100} {
			starts := startsByKey(t, r, rdb.Partitions{}, 200, batch)
			if starts['a'] < 49 || starts['a'] > 51 {
				t.Errorf("in batches of %d: a of weight 1 started %d tasks, b of weight 3 %d", batch, starts['a'], starts['b'])
			}
		}
		// c was idle until now: it gets its share from here on and no credit.
		makeKeyed(t, r, "c", manyIDs("c", 100)...)
		if starts := startsByKey(t, r, rdb.Partitions{}, 100, 10); starts['c'] < 18 || starts['c'] > 22 {
			t.Errorf("with c, which was idle: %d, %d and %d tasks started", starts['a'], starts['b'], starts['c'])
		}
		redistest.Must(t, r.Client().FlushDB(context.Background()))
	})
}

// In any window of time t, at most burst + t × rate tasks of a partition start, by the clock of
// Redis.
func TestPartitionRateInEachWindow(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		const interval, burst, tasks = 3, 4, 60 // interval in milliseconds
		makeKeyed(t, r, "a", manyIDs("a", tasks)...)
		var at []int64
		p := rdb.Partitions{Limits: fmt.Sprintf("interval=%d burst=%d", interval*1000, burst)}
		began := time.Now()
		for i := 0; len(at) < tasks; i++ {
			f := fetchPartitions(t, r, p, rdb.Fetch{N: 1 + i%5})
			if f.Err != nil {
				t.Fatal(f.Err)
			}
			for range f.Tasks {
				at = append(at, f.Now)
			}
			if time.Since(began) > 20*time.Second {
				t.Fatalf("%d tasks started in 20 s", len(at))
			}
		}
		for i := range at {
			for j := i + burst; j < len(at); j++ {
				if window := at[j] - at[i]; int64(j-i+1) > burst+(window+1)/interval {
					t.Fatalf("%d tasks started within %d ms: %v", j-i+1, window, at)
				}
			}
		}
	})
}

// A server that has no free slot makes partitions ready whose limits it has freed, and wakes
// another server.
func TestEndedTasksWakeOtherServers(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, p := context.Background(), rdb.Partitions{Limits: "concurrency=1"}
		makeKeyed(t, r, "a", "a1", "a2")
		fetchAll(t, r, p, 10, 3)
		settleAll(t, r, "a1")
		redistest.Must(t, r.Client().Del(ctx, "asynq:{q}:marker"))
		if f := fetchPartitions(t, r, p, rdb.Fetch{Ended: []rdb.Ended{{Partition: "a", ID: "a1"}}}); f.Err != nil || len(f.Tasks) > 0 {
			t.Errorf("a fetch of no task: %+v", f)
		}
		if n := r.Client().LLen(ctx, "asynq:{q}:marker").Val(); n != 1 {
			t.Errorf("there are %d markers", n)
		}
		if f := fetchPartitions(t, r, p, rdb.Fetch{N: 5}); len(f.Tasks) != 1 {
			t.Errorf("%+v", f)
		}
	})
}

// A full Redis starts tasks of partitions, and holds those of the inbox.
func TestPartitionsOfFullRedis(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t, "--maxmemory-policy", "noeviction")
	ctx, client := context.Background(), s.Client(t)
	b := rdb.New(client, "")
	var tasks []*rdb.NewTask
	for i := range 20 {
		tasks = append(tasks, keyedTask(t, fmt.Sprint("k", i%4), fmt.Sprint("t", i)))
	}
	b.Enqueue(ctx, tasks...)
	redistest.Must(t, client.ConfigSet(ctx, "maxmemory", "1"))
	var ended []rdb.Ended
	p := &rdb.Partitions{Limits: "concurrency=1 interval=1 burst=5"}
	done := 0
	for range 50 {
		f := redistest.Fetch(t, b, rdb.Fetch{N: 3, Partitions: p, Ended: ended, Sweep: true})
		if f.Err != nil {
			t.Fatal(f.Err)
		}
		ended = nil
		for _, task := range f.Tasks {
			redistest.Settle(t, b, rdb.Settlement{ID: task.ID, Token: "f", Outcome: rdb.Done})
			var i int
			_, _ = fmt.Sscanf(task.ID, "t%d", &i)
			ended = append(ended, rdb.Ended{Partition: fmt.Sprint("k", i%4), ID: task.ID})
			done++
		}
	}
	if done != 20 {
		t.Errorf("%d of 20 tasks ran", done)
	}
	redistest.Must(t, client.ConfigSet(ctx, "maxmemory", "0"))
	redistest.CheckServer(t, client)
}

// A fetch of a queue with a long inbox blocks Redis only briefly, also if places of many deleted
// tasks come first. Tests beside it would cost its calls CPU time, in the caches.
func TestPartitionedFetchIsBounded(t *testing.T) {
	s := redistest.StartServer(t)
	ctx, client := context.Background(), s.Client(t)
	b := rdb.New(client, "")
	const n = 100_000
	for i := 0; i < n; i += 500 {
		var tasks []*rdb.NewTask
		for j := i; j < i+500; j++ {
			tasks = append(tasks, keyedTask(t, fmt.Sprint("tenant-", j%10_000), fmt.Sprintf("%036d", j)))
		}
		b.Enqueue(ctx, tasks...)
	}
	fetch := func(n int) *rdb.Fetch {
		f := redistest.Fetch(t, b, rdb.Fetch{N: n, Partitions: &rdb.Partitions{Limits: "concurrency=10"}, Sweep: true})
		if f.Err != nil {
			t.Fatal(f.Err)
		}
		return f
	}
	// The time of the CPU, because others may use it too. A call of 8 ms blocks Redis for 8 ms.
	bounded := func(what string, calls int, before float64) {
		each := (redisCPU(t, client) - before) / float64(calls)
		if t.Logf("%s: %d calls of %.1f ms each", what, calls, each*1000); each > 0.008 && !redistest.Race {
			t.Errorf("%s: a call takes %.1f ms of CPU time", what, each*1000)
		}
	}
	calls, before := 1, redisCPU(t, client)
	for fetch(0).More {
		calls++
	}
	bounded("sort", calls, before)
	if held := client.ZCard(ctx, "asynq:{q}:partitions:held").Val(); held != n || calls > n/500+1 {
		t.Errorf("%d calls have sorted %d tasks", calls, held)
	}
	for i := range n / 2 { // as other libraries delete them
		client.Del(ctx, fmt.Sprintf("asynq:{q}:t:%036d", i))
	}
	redistest.Must(t, client.ZRemRangeByRank(ctx, "asynq:{q}:scheduled", 0, n/2-1))
	started, fetches, before := 0, 0, redisCPU(t, client)
	for ; started < 500 && fetches < 1000; fetches++ {
		started += len(fetch(500).Tasks)
	}
	if started < 500 {
		t.Errorf("%d tasks started", started)
	}
	bounded("fetch", fetches, before)
}
