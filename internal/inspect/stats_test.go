package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/inspect"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// stageByHand moves n tasks of a group to an aggregation set.
func stageByHand(t *testing.T, r *redistest.Redis, group string, n int64) {
	t.Helper()
	ctx, keys := context.Background(), r.Broker().Keys("q")
	taken, err := r.Client().ZPopMin(ctx, keys.Group(group), n).Result()
	redistest.NoError(t, err)
	set := keys.AggregationSet(group, "9c1d")
	for _, e := range taken {
		redistest.Must(t, r.Client().ZAdd(ctx, set, e))
	}
	redistest.Must(t, r.Client().ZAdd(ctx, keys.AggregationSets(), redis.Z{Score: 1, Member: set}))
}

// groupTasks creates tasks in a group.
func groupTasks(t *testing.T, r *redistest.Redis, group string, n int) {
	t.Helper()
	for i := range n {
		task := redistest.NewTask(t, "q", fmt.Sprint(group, "-", i))
		task.Group = group
		r.Make(t, task)
	}
}

// statsOf returns the stats of the queue q.
func statsOf(in *inspect.Inspector) (*inspect.QueueStats, error) {
	stats, errs := in.Stats(context.Background(), []string{"q"})
	return stats[0], errs[0]
}

func TestStatsIgnoreImpossibleTimes(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, in, keys := context.Background(), inspect.New(r.Broker()), r.Broker().Keys("q")
		redistest.SeedStates(t, r)
		redistest.Must(t, r.Client().ZAdd(ctx, keys.Scheduled(), redis.Z{Score: -1e18, Member: "t3"}))
		redistest.Must(t, r.Client().ZAdd(ctx, keys.Retry(), redis.Z{Score: -1e18, Member: "t4"}))
		s, err := statsOf(in)
		if err != nil || !s.NextScheduled.IsZero() || !s.NextRetry.IsZero() {
			t.Errorf("next scheduled %v, in retry %v, error %v; want none", s.NextScheduled, s.NextRetry, err)
		}
	})
}

// memoryOf estimates the memory of one queue.
func memoryOf(in *inspect.Inspector, queue string, s *inspect.QueueStats, samples int) (int64, error) {
	bytes, errs := in.Memory(context.Background(), []string{queue}, []*inspect.QueueStats{s}, samples)
	return bytes[0], errs[0]
}

func TestStats(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		in := inspect.New(b)
		if s, err := statsOf(in); err != nil || !s.Oldest.IsZero() || s.Sizes[wire.StateAggregating] != 0 {
			t.Errorf("of no queue: %+v, error %v", s, err)
		}
		seedOrdered(t, r)
		r.Enqueue(t, "q", 1)
		groupTasks(t, r, "h", 4)
		stageByHand(t, r, "h", 3)
		redistest.Must(t, r.Client().Set(ctx, "asynq:{q}:paused", 1, 0))
		// The task with the longest wait is not the next to run: it was returned.
		long := time.Now().Add(-time.Hour).Truncate(time.Microsecond)
		redistest.Must(t, r.Client().HSet(ctx, "asynq:{q}:t:pending1", "pending_since", long.UnixNano()))
		s, err := statsOf(in)
		redistest.NoError(t, err)
		if time.Since(s.Now).Abs() > time.Minute || !s.Oldest.Equal(long) {
			t.Errorf("now is %v, and the oldest waits since %v, not %v", s.Now, s.Oldest, long)
		}
		// seedOrdered's are due in an hour, and its leases last for half a minute.
		for _, next := range []struct {
			at time.Time
			in time.Duration
		}{{s.NextScheduled, time.Hour}, {s.NextRetry, time.Hour}, {s.NextLease, 30 * time.Second}} {
			if off := next.at.Sub(s.Now) - next.in; off.Abs() > 5*time.Second {
				t.Errorf("the first is due %v later than it should be", off)
			}
		}
		s.Now, s.Oldest, s.NextScheduled, s.NextRetry, s.NextLease = time.Time{}, time.Time{}, time.Time{}, time.Time{}, time.Time{}
		want := &inspect.QueueStats{Groups: 2, Paused: true, Archive: wire.DefaultArchiveLimits, ProcessedToday: 9, FailedToday: 9, ProcessedTotal: 9, FailedTotal: 9,
			Sizes: map[wire.State]int{wire.StateActive: 3, wire.StatePending: 4, wire.StateScheduled: 3, wire.StateRetry: 3,
				wire.StateArchived: 3, wire.StateCompleted: 3, wire.StateAggregating: 7}}
		want.FailedToday, want.FailedTotal = s.FailedToday, s.FailedToday // whatever a test says of completed tasks
		if diff := cmp.Diff(want, s); diff != "" {
			t.Errorf("stats (-want +got):\n%s", diff)
		}
		if s.FailedToday < 6 {
			t.Errorf("%d failed", s.FailedToday)
		}
	})
}

// A broken queue does not affect the stats of the others.
func TestStatsOfManyQueues(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.AllowViolations()
		ctx, b := context.Background(), r.Broker()
		names := make([]string, 250) // more than one pipeline asks about
		for i := range names {
			names[i] = fmt.Sprint("q", i)
		}
		r.Enqueue(t, "q7", 2)
		r.Enqueue(t, "q249", 3)
		redistest.Must(t, r.Client().Set(ctx, b.Keys("q120").Retry(), "no set", 0))
		redistest.Must(t, r.Client().ZAdd(ctx, b.Keys("q8").Retry(), redis.Z{Score: math.Inf(1), Member: "odd"}))
		stats, errs := inspect.New(b).Stats(ctx, names)
		if len(stats) != len(names) || len(errs) != len(names) {
			t.Fatalf("%d results and %d errors", len(stats), len(errs))
		}
		pending := map[int]int{7: 2, 249: 3}
		for i, got := range stats {
			switch {
			case i == 120:
				if !errors.Is(errs[i], inspect.ErrWrongType) || got != nil {
					t.Errorf("of the broken one: %+v, error %v", got, errs[i])
				}
			case errs[i] != nil || got.Sizes[wire.StatePending] != pending[i] || !got.NextRetry.IsZero():
				t.Errorf("of queue %d: %+v, error %v", i, got, errs[i])
			}
		}
	})
}

func TestGroups(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		groupTasks(t, r, "b", 2)
		groupTasks(t, r, "a:c", 5)
		stageByHand(t, r, "a:c", 2)
		want := []inspect.Group{{Name: "a:c", Size: 3}, {Name: "b", Size: 2}}
		got, err := inspect.New(b).Groups(ctx, "q")
		for i, key := range []string{"a:c", "b"} {
			first, err := r.Client().ZRangeWithScores(ctx, b.Keys("q").Group(key), 0, 0).Result()
			redistest.NoError(t, err)
			want[i].Oldest = time.Unix(int64(first[0].Score), 0)
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("groups (-want +got):\n%s, error %v", diff, err)
		}
		if got := walkAll(t, b, wire.StateAggregating, "", 2, false); len(got) != 7 {
			t.Errorf("walked over %v", got)
		}
		if got := walkAll(t, b, wire.StateAggregating, "a:c", 100, false); len(got) != 5 {
			t.Errorf("walked over %v", got)
		}
		if got := walkAll(t, b, wire.StateAggregating, "a", 100, false); len(got) != 0 {
			t.Errorf("walked over %v", got)
		}
	})
}

// The sizes of many groups, and their sum, are read in a few calls.
func TestManyGroups(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx := context.Background()
		b := r.Broker()
		in := inspect.New(b)
		const n = 1200
		var tasks []*rdb.NewTask
		for i := range 2 * n {
			task := redistest.NewTask(t, "q", fmt.Sprint("t", i))
			task.Group = fmt.Sprint("g", i%n)
			tasks = append(tasks, task)
		}
		r.Make(t, tasks...)
		stageByHand(t, r, "g7", 1)
		stageByHand(t, r, "g8", 1)
		s, err := statsOf(in)
		if err != nil || s.Groups != n || s.Sizes[wire.StateAggregating] != 2*n {
			t.Errorf("%+v, error %v", s, err)
		}
		groups, err := in.Groups(ctx, "q")
		if err != nil || len(groups) != n || groups[0] != (inspect.Group{Name: "g0", Size: 2, Oldest: groups[0].Oldest}) {
			t.Errorf("%d groups, error %v", len(groups), err)
		}
	})
}

func TestMemory(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		b := r.Broker()
		in := inspect.New(b)
		memory := func(samples int) int64 {
			s, err := statsOf(in)
			redistest.NoError(t, err)
			bytes, err := memoryOf(in, "q", s, samples)
			redistest.NoError(t, err)
			return bytes
		}
		if got := memory(20); got != 0 {
			t.Errorf("%d bytes of no queue", got)
		}
		seedOrdered(t, r)
		groupTasks(t, r, "h", 2)
		stageByHand(t, r, "h", 1)
		r.Make(t, redistest.Lock(redistest.NewTask(t, "q", "locked"), "l"))
		few := memory(20)
		r.Enqueue(t, "q", 1000)
		if many, sampled := memory(1000), memory(5); few < 3000 || many < few+100_000 || sampled < many/2 || sampled > many*2 {
			t.Errorf("%d bytes, with 1000 tasks more %d, or of fewer samples %d", few, many, sampled)
		}
	})
}

// Memory makes one round trip per 100 queues, and skips queues without stats.
func TestMemoryOfManyQueues(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.AllowViolations()
		ctx := context.Background()
		b, recorded := redistest.RecordingBroker(t, r)
		in := inspect.New(b)
		names := make([]string, 250)
		for i := range names {
			names[i] = fmt.Sprint("q", i)
		}
		r.Enqueue(t, "q7", 2)
		r.Enqueue(t, "q249", 3)
		redistest.Must(t, r.Client().Set(ctx, b.Keys("q120").Retry(), "no set", 0))
		stats, _ := in.Stats(ctx, names) // one fails
		want := make([]int64, len(names))
		for _, i := range []int{7, 249} {
			var err error
			want[i], err = memoryOf(in, names[i], stats[i], 3)
			redistest.NoError(t, err)
		}
		before := recorded.Trips
		bytes, errs := in.Memory(ctx, names, stats, 3)
		if n := recorded.Trips - before; n != 3 {
			t.Errorf("%d round trips for %d queues", n, len(names))
		}
		for i, got := range bytes {
			if errs[i] != nil || got != want[i] || (i == 7 || i == 249) != (got > 0) {
				t.Errorf("of queue %d: %d bytes, error %v, want %d", i, got, errs[i], want[i])
			}
		}
		stats[120] = stats[0]
		if _, errs := in.Memory(ctx, names, stats, 3); !errors.Is(errs[120], inspect.ErrWrongType) {
			t.Errorf("of the broken one: %v", errs[120])
		}
	})
}

// If Redis denies MEMORY USAGE, the memory of a queue is 0 bytes.
func TestMemoryRefused(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t)
	ctx, client := context.Background(), s.Client(t)
	redistest.Must(t, client.Do(ctx, "ACL", "SETUSER", "default", "-memory"))
	b := rdb.New(client, "")
	in := inspect.New(b)
	task := redistest.NewTask(t, "q", "a")
	b.Enqueue(ctx, task)
	stats, err := statsOf(in)
	redistest.NoError(t, err)
	if bytes, err := memoryOf(in, "q", stats, 20); bytes != 0 || err != nil {
		t.Errorf("%d bytes, error %v", bytes, err)
	}
}

func TestHistory(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b, keys := context.Background(), r.Broker(), r.Broker().Keys("q")
		in := inspect.New(b)
		today := time.Now().UTC().Truncate(24 * time.Hour)
		for _, days := range []int{0, 2, 89} {
			day := today.AddDate(0, 0, -days)
			redistest.Must(t, r.Client().Set(ctx, keys.ProcessedOn(day), 100+days, time.Hour))
			redistest.Must(t, r.Client().Set(ctx, keys.FailedOn(day), days, time.Hour))
		}
		got, err := in.History(ctx, "q", 200)
		redistest.NoError(t, err)
		for i, day := range got {
			want := inspect.DailyStats{Day: today.AddDate(0, 0, -i)}
			if i == 0 || i == 2 || i == 89 {
				want.Processed, want.Failed = int64(100+i), int64(i)
			}
			if day != want {
				t.Errorf("%d days ago: %+v, want %+v", i, day, want)
			}
		}
		if got, err := in.History(ctx, "q", 1); err != nil || len(got) != 1 || got[0].Processed != 100 {
			t.Errorf("one day: %+v, error %v", got, err)
		}
	})
}

func TestServers(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.AllowViolations()
		ctx, b, ns := context.Background(), r.Broker(), wire.DefaultNamespace
		in := inspect.New(b)
		began := time.Now().Add(-time.Minute).Truncate(time.Second).UTC()
		publish := func(id string) wire.Process {
			info := &wire.ServerInfo{Host: "web", PID: 1, ServerID: id, Queues: map[string]int{"q": 1}, Status: "active", StartTime: began}
			worker := &wire.WorkerInfo{Host: "web", PID: 1, ServerID: id, TaskID: "t-" + id, Queue: "q", StartTime: began}
			encoded, err := info.Encode()
			redistest.NoError(t, err)
			running, err := worker.Encode()
			redistest.NoError(t, err)
			p := wire.Process{Host: "web", PID: 1, ID: id}
			presence := &rdb.Presence{Process: p, Info: encoded, Busy: true, Started: map[string][]byte{"t-" + id: running}}
			b.Publish(ctx, presence)
			redistest.NoError(t, presence.Err)
			return p
		}
		publish("one")
		gone, odd := publish("gone"), publish("odd")
		redistest.Must(t, r.Client().Del(ctx, ns.Server(gone)))
		redistest.Must(t, r.Client().Del(ctx, ns.ServerWorkers(gone)))
		redistest.Must(t, r.Client().Set(ctx, ns.Server(odd), "\xff\xff", 0))
		redistest.Must(t, r.Client().HSet(ctx, ns.ServerWorkers(odd), "bad", "\xff\xff"))
		redistest.Must(t, r.Client().ZAdd(ctx, ns.Servers(), redis.Z{Score: 9e15, Member: ns.Queues()}, redis.Z{Score: 1, Member: "long ago"}))
		redistest.Must(t, r.Client().SAdd(ctx, ns.Queues(), "q"))

		servers, workers, err := in.Servers(ctx)
		if err != nil || len(servers) != 1 || servers[0].ServerID != "one" || !servers[0].StartTime.Equal(began) {
			t.Errorf("servers %+v, error %v", servers, err)
		}
		if len(workers["one"]) != 1 || len(workers["odd"]) != 1 || workers["one"][0].TaskID != "t-one" {
			t.Errorf("workers %+v", workers)
		}
		started, err := in.Started(ctx, "q", []string{"t-one", "t-gone", "bad", "none"})
		if err != nil || len(started) != 1 || !started["t-one"].Equal(began) {
			t.Errorf("started %v, error %v", started, err)
		}
		if started, err := in.Started(ctx, "another", []string{"t-one"}); err != nil || len(started) != 0 {
			t.Errorf("in another queue started %v, error %v", started, err)
		}
	})
}

// A server with many workers is read in pages, and each worker is listed once.
func TestServersWithManyWorkers(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		const n = 3000
		ctx, b := context.Background(), r.Broker()
		for _, id := range []string{"one", "two"} {
			p := &rdb.Presence{Process: wire.Process{Host: "web", PID: 1, ID: id}, Info: []byte("x"), Busy: true, Started: make(map[string][]byte)}
			for i := range n {
				w := &wire.WorkerInfo{ServerID: id, TaskID: fmt.Sprint(id, i), Queue: "q"}
				encoded, err := w.Encode()
				redistest.NoError(t, err)
				p.Started[w.TaskID] = encoded
			}
			b.Publish(ctx, p)
			redistest.NoError(t, p.Err)
		}
		_, workers, err := inspect.New(b).Servers(ctx)
		redistest.NoError(t, err)
		for _, id := range []string{"one", "two"} {
			seen := make(map[string]bool)
			for _, w := range workers[id] {
				seen[w.TaskID] = true
			}
			if len(workers[id]) != n || len(seen) != n {
				t.Errorf("%s has %d workers, of %d tasks; want %d", id, len(workers[id]), len(seen), n)
			}
		}
	})
}

// A Redis that is not a cluster returns an error; miniredis reports itself as a cluster.
func TestNodes(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		nodes, err := inspect.New(r.Broker()).Nodes(context.Background(), "q")
		if r.IsMini() && (err != nil || len(nodes) != 1 || nodes[0].Addr == "") {
			t.Errorf("nodes %v, error %v", nodes, err)
		}
		if !r.IsMini() && (!script.Refused(err) || errors.Is(err, context.Canceled)) {
			t.Errorf("nodes %v, error %v", nodes, err)
		}
	})
}
