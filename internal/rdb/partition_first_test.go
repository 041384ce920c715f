package rdb_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/script"
)

// The first tasks of the inbox start before it is sorted if all of its tasks start, or if the
// caller permits it and they belong to different partitions. They observe the limits.
func TestFirstTasksStartBeforeSort(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		for _, tt := range []struct {
			name       string
			keys       []string
			n          int
			beforeSort bool
			limits     string
			own        string // settings of partition "k0"
			ordered    bool

			started, held int
			unsorted      bool
		}{
			{name: "all start", keys: keysOf(20, 1), n: 20, started: 20},
			{name: "all start, at the limit", keys: keysOf(20, 2), n: 20, limits: "concurrency=10", started: 20},
			{name: "all start but one", keys: keysOf(21, 2), n: 30, limits: "concurrency=10", started: 20, held: 1},
			{name: "others remain", keys: keysOf(40, 40), n: 20, started: 20, held: 20},
			{name: "others remain, permitted", keys: keysOf(40, 40), n: 20, beforeSort: true, started: 20},
			{name: "one twice", keys: keysOf(40, 18), n: 20, beforeSort: true, started: 20},
			{name: "some twice", keys: keysOf(40, 17), n: 20, beforeSort: true, started: 20, held: 20},
			{name: "one partition", keys: keysOf(40, 1), n: 20, beforeSort: true, started: 20, held: 20},
			{name: "one partition, one slot", keys: keysOf(40, 1), n: 1, beforeSort: true, started: 1, held: 39},
			{name: "one slot", keys: keysOf(40, 40), n: 1, beforeSort: true, started: 1},
			{name: "no slot", keys: keysOf(40, 40), n: 0, beforeSort: true},
			{name: "no slot, sort", keys: keysOf(40, 40), n: 0, held: 40},
			{name: "long inbox", keys: keysOf(600, 600), n: 20, held: 500, unsorted: true},
			{name: "long inbox, permitted", keys: keysOf(600, 600), n: 20, beforeSort: true, started: 20},
			{name: "rate", keys: keysOf(40, 40), n: 20, beforeSort: true, limits: "interval=1000 burst=1", started: 20, held: 20},
			{name: "in order", keys: keysOf(40, 40), n: 20, beforeSort: true, ordered: true, started: 20, held: 20},
			{name: "a pause", keys: keysOf(20, 20), n: 20, beforeSort: true, own: "paused=1", started: 19, held: 1},
		} {
			ctx := context.Background()
			redistest.Must(t, r.Client().FlushDB(ctx))
			if tt.own != "" {
				setPartition(t, r, "k0", tt.own)
			}
			var want []string
			var tasks []*rdb.NewTask
			for i, key := range tt.keys {
				id := fmt.Sprintf("t%03d", i)
				tasks, want = append(tasks, keyedTask(t, key, id)), append(want, id)
			}
			for part := range slices.Chunk(tasks, script.MaxBatch) {
				r.Make(t, part...)
			}
			f := fetchPartitions(t, r, rdb.Partitions{Limits: tt.limits, Ordered: tt.ordered}, rdb.Fetch{N: tt.n, BeforeSort: tt.beforeSort})
			held := int(r.Client().ZCard(ctx, "asynq:{q}:partitions:held").Val())
			if f.Err != nil || len(f.Tasks) != tt.started || held != tt.held || f.Unsorted != tt.unsorted {
				t.Errorf("%s: %d tasks started, %d are held, unsorted %v: %+v", tt.name, len(f.Tasks), held, f.Unsorted, f)
			}
			if ids := redistest.IDs(f); tt.held == 0 && !slices.Equal(ids, want[:tt.started]) {
				t.Errorf("%s: %v started", tt.name, ids)
			}
			if more := f.More || tt.limits != "" || tt.own != ""; more != (tt.started < len(tt.keys) || tt.limits != "") {
				t.Errorf("%s: more may start: %v", tt.name, f.More)
			}
			if n := int(r.Client().ZCard(ctx, "asynq:{q}:partitions:running").Val()); n != tt.started {
				t.Errorf("%s: %d tasks run", tt.name, n)
			}
			if n := int(r.Client().ZCard(ctx, "asynq:{q}:lease").Val()); n != tt.started {
				t.Errorf("%s: there are %d leases", tt.name, n) // addMany adds a member for a moment
			}
		}
	})
}

// keysOf returns the keys of n tasks of a number of partitions, in turns.
func keysOf(n, partitions int) (keys []string) {
	for i := range n {
		keys = append(keys, fmt.Sprint("k", i%partitions))
	}
	return keys
}

// Tasks that start before the inbox is sorted count against the limits of their partitions.
func TestFirstTasksObserveLimits(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		p := rdb.Partitions{Limits: "concurrency=1"}
		fetch := func(what string, ended []rdb.Ended, want ...string) {
			t.Helper()
			f := fetchPartitions(t, r, p, rdb.Fetch{N: 10, BeforeSort: true, Ended: ended, Sweep: true})
			if ids := redistest.IDs(f); f.Err != nil || !slices.Equal(ids, want) {
				t.Errorf("%s, %v started, want %v (%v)", what, ids, want, f.Err)
			}
		}
		makeKeyed(t, r, "a", "a1")
		fetch("first", nil, "a1")
		makeKeyed(t, r, "a", "a2")
		makeKeyed(t, r, "b", "b1")
		fetch("while a1 runs", nil, "b1")
		settleAll(t, r, "a1", "b1")
		fetch("after a1", []rdb.Ended{{Partition: "a", ID: "a1"}, {Partition: "b", ID: "b1"}}, "a2")
		settleAll(t, r, "a2")
		makeKeyed(t, r, "a", "a3")
		fetch("after a2", []rdb.Ended{{Partition: "a", ID: "a2"}}, "a3")
		settleAll(t, r, "a3") // by a server that dies
		fetch("a sweep finds that a3 has ended", nil)
		if n := r.Client().ZCard(context.Background(), "asynq:{q}:partitions:running").Val(); n != 0 {
			t.Errorf("%d tasks run", n)
		}
	})
}

// A full Redis answers fetches that sort nothing, whatever they write first.
func TestFirstTasksOfFullRedis(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t, "--maxmemory-policy", "noeviction")
	ctx, client := context.Background(), s.Client(t)
	b, p := rdb.New(client, ""), &rdb.Partitions{}
	var tasks []*rdb.NewTask
	for i := range 250 {
		tasks = append(tasks, keyedTask(t, fmt.Sprint("k", i), fmt.Sprint("t", i)))
	}
	b.Enqueue(ctx, tasks...)
	redistest.Must(t, client.Del(ctx, "asynq:{q}:marker"))
	redistest.Must(t, client.ConfigSet(ctx, "maxmemory", "1"))
	for _, tt := range []struct {
		what    string
		fetch   rdb.Fetch
		started int
	}{
		{"for no slot, which sets the marker", rdb.Fetch{N: 0, BeforeSort: true, Mark: true}, 0},
		{"for all tasks", rdb.Fetch{N: 250, BeforeSort: true}, 250},
		{"from an empty inbox, which stores where the check of running tasks continues", rdb.Fetch{N: 10, Token: "g", Sweep: true}, 0},
	} {
		tt.fetch.Partitions = p
		if f := redistest.Fetch(t, b, tt.fetch); f.Err != nil || len(f.Tasks) != tt.started {
			t.Errorf("fetch %s: %d tasks, %v", tt.what, len(f.Tasks), f.Err)
		}
	}
	redistest.Must(t, client.ConfigSet(ctx, "maxmemory", "0"))
	redistest.CheckServer(t, client)
}
