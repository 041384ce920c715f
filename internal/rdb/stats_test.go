package rdb_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/wire"
)

// stageByHand puts n tasks of a group into an aggregation set of it.
func stageByHand(t *testing.T, r *redistest.Redis, group string, n int64) {
	t.Helper()
	ctx, keys := context.Background(), r.Broker().Keys("q")
	taken, err := r.Client().ZPopMin(ctx, keys.Group(group), n).Result()
	must1(t, err)
	set := keys.AggregationSet(group, "9c1d")
	for _, e := range taken {
		must(t, r.Client().ZAdd(ctx, set, e))
	}
	must(t, r.Client().ZAdd(ctx, keys.AggregationSets(), redis.Z{Score: 1, Member: set}))
}

// groupTasks makes tasks in a group.
func groupTasks(t *testing.T, r *redistest.Redis, group string, n int) {
	t.Helper()
	for i := range n {
		task := redistest.NewTask(t, "q", fmt.Sprint(group, "-", i))
		task.Group = group
		r.Make(t, task)
	}
}

func TestStats(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		if s, err := b.Stats(ctx, "q"); err != nil || !s.Oldest.IsZero() || s.Sizes[wire.StateAggregating] != 0 {
			t.Errorf("of no queue: %+v, error %v", s, err)
		}
		seedOrdered(t, r)
		r.Enqueue(t, "q", 1)
		groupTasks(t, r, "h", 4)
		stageByHand(t, r, "h", 3)
		must(t, r.Client().Set(ctx, "asynq:{q}:paused", 1, 0))
		// The one that waits the longest is not the next to run: it was given back.
		long := time.Now().Add(-time.Hour).Truncate(time.Microsecond)
		must(t, r.Client().HSet(ctx, "asynq:{q}:t:pending1", "pending_since", long.UnixNano()))
		s, err := b.Stats(ctx, "q")
		must1(t, err)
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
		want := &rdb.QueueStats{Groups: 2, Paused: true, ProcessedToday: 9, FailedToday: 9, ProcessedTotal: 9, FailedTotal: 9,
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

// Of many queues, one that is broken leaves the others alone.
func TestStatsOf(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.AllowViolations()
		ctx, b := context.Background(), r.Broker()
		names := make([]string, 250) // more than one pipeline asks about
		for i := range names {
			names[i] = fmt.Sprint("q", i)
		}
		r.Enqueue(t, "q7", 2)
		r.Enqueue(t, "q249", 3)
		must(t, r.Client().Set(ctx, b.Keys("q120").Retry(), "no set", 0))
		must(t, r.Client().ZAdd(ctx, b.Keys("q8").Retry(), redis.Z{Score: math.Inf(1), Member: "odd"}))
		results := b.StatsOf(ctx, names)
		if len(results) != len(names) {
			t.Fatalf("%d results", len(results))
		}
		pending := map[int]int{7: 2, 249: 3}
		for i, got := range results {
			switch {
			case i == 120:
				if !errors.Is(got.Err, rdb.ErrWrongType) || got.Stats != nil {
					t.Errorf("of the broken one: %+v", got)
				}
			case got.Err != nil || got.Stats.Sizes[wire.StatePending] != pending[i] || !got.Stats.NextRetry.IsZero():
				t.Errorf("of queue %d: %+v", i, got)
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
		want := []rdb.Group{{Name: "a:c", Size: 3}, {Name: "b", Size: 2}}
		got, err := b.Groups(ctx, "q")
		for i, key := range []string{"a:c", "b"} {
			first, err := r.Client().ZRangeWithScores(ctx, b.Keys("q").Group(key), 0, 0).Result()
			must1(t, err)
			want[i].Oldest = time.Unix(int64(first[0].Score), 0)
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("groups (-want +got):\n%s, error %v", diff, err)
		}
		if got := walkAll(t, b, wire.StateAggregating, "", 2); len(got) != 7 {
			t.Errorf("walked over %v", got)
		}
		if got := walkAll(t, b, wire.StateAggregating, "a:c", 100); len(got) != 5 {
			t.Errorf("walked over %v", got)
		}
		if got := walkAll(t, b, wire.StateAggregating, "a", 100); len(got) != 0 {
			t.Errorf("walked over %v", got)
		}
	})
}

// Groups are many: their sizes come in a few calls, and so does their sum.
func TestManyGroups(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx := context.Background()
		b, recorded := recordingBroker(t, r)
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
		s, err := b.Stats(ctx, "q")
		if err != nil || s.Groups != n || s.Sizes[wire.StateAggregating] != 2*n {
			t.Errorf("%+v, error %v", s, err)
		}
		if calls := len(recorded.calls["group_sizes"]); calls != 4 {
			t.Errorf("%d calls for 1200 groups and 2 sets", calls)
		}
		groups, err := b.Groups(ctx, "q")
		if err != nil || len(groups) != n || groups[0] != (rdb.Group{Name: "g0", Size: 2, Oldest: groups[0].Oldest}) {
			t.Errorf("%d groups, error %v", len(groups), err)
		}
	})
}

func TestMemory(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		memory := func(samples int) int64 {
			s, err := b.Stats(ctx, "q")
			must1(t, err)
			bytes, err := b.Memory(ctx, "q", s, samples)
			must1(t, err)
			return bytes
		}
		if got := memory(20); got != 0 {
			t.Errorf("%d bytes of no queue", got)
		}
		seedOrdered(t, r)
		groupTasks(t, r, "h", 2)
		stageByHand(t, r, "h", 1)
		r.Make(t, lock(redistest.NewTask(t, "q", "locked"), "l"))
		few := memory(20)
		r.Enqueue(t, "q", 1000)
		if many, sampled := memory(1000), memory(5); few < 3000 || many < few+100_000 || sampled < many/2 || sampled > many*2 {
			t.Errorf("%d bytes, with 1000 tasks more %d, or of fewer samples %d", few, many, sampled)
		}
	})
}

// A Redis that does not let us ask has a queue of 0 bytes.
func TestMemoryRefused(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t)
	ctx, client := context.Background(), s.Client(t)
	must(t, client.Do(ctx, "ACL", "SETUSER", "default", "-memory"))
	b := rdb.New(client, "")
	task := redistest.NewTask(t, "q", "a")
	b.Enqueue(ctx, task)
	stats, err := b.Stats(ctx, "q")
	must1(t, err)
	if bytes, err := b.Memory(ctx, "q", stats, 20); bytes != 0 || err != nil {
		t.Errorf("%d bytes, error %v", bytes, err)
	}
}

func TestHistory(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b, keys := context.Background(), r.Broker(), r.Broker().Keys("q")
		today := time.Now().UTC().Truncate(24 * time.Hour)
		for _, days := range []int{0, 2, 89} {
			day := today.AddDate(0, 0, -days)
			must(t, r.Client().Set(ctx, keys.ProcessedOn(day), 100+days, time.Hour))
			must(t, r.Client().Set(ctx, keys.FailedOn(day), days, time.Hour))
		}
		got, err := b.History(ctx, "q", 200)
		must1(t, err)
		for i, day := range got {
			want := rdb.DailyStats{Day: today.AddDate(0, 0, -i)}
			if i == 0 || i == 2 || i == 89 {
				want.Processed, want.Failed = int64(100+i), int64(i)
			}
			if day != want {
				t.Errorf("%d days ago: %+v, want %+v", i, day, want)
			}
		}
		if got, err := b.History(ctx, "q", 1); err != nil || len(got) != 1 || got[0].Processed != 100 {
			t.Errorf("one day: %+v, error %v", got, err)
		}
	})
}

func TestServers(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.AllowViolations()
		ctx, b, ns := context.Background(), r.Broker(), wire.DefaultNamespace
		began := time.Now().Add(-time.Minute).Truncate(time.Second).UTC()
		publish := func(id string) wire.Process {
			info := &wire.ServerInfo{Host: "web", PID: 1, ServerID: id, Queues: map[string]int{"q": 1}, Status: "active", StartTime: began}
			worker := &wire.WorkerInfo{Host: "web", PID: 1, ServerID: id, TaskID: "t-" + id, Queue: "q", StartTime: began}
			encoded, err := info.Encode()
			must1(t, err)
			running, err := worker.Encode()
			must1(t, err)
			p := wire.Process{Host: "web", PID: 1, ID: id}
			_, err = b.Publish(ctx, &rdb.Presence{Process: p, Info: encoded, Busy: true, Started: map[string][]byte{"t-" + id: running}})
			must1(t, err)
			return p
		}
		publish("one")
		gone, odd := publish("gone"), publish("odd")
		must(t, r.Client().Del(ctx, ns.Server(gone)))
		must(t, r.Client().Del(ctx, ns.ServerWorkers(gone)))
		must(t, r.Client().Set(ctx, ns.Server(odd), "\xff\xff", 0))
		must(t, r.Client().HSet(ctx, ns.ServerWorkers(odd), "bad", "\xff\xff"))
		must(t, r.Client().ZAdd(ctx, ns.Servers(), redis.Z{Score: 9e15, Member: ns.Queues()}, redis.Z{Score: 1, Member: "long ago"}))
		must(t, r.Client().SAdd(ctx, ns.Queues(), "q"))

		servers, workers, err := b.Servers(ctx)
		if err != nil || len(servers) != 1 || servers[0].ServerID != "one" || !servers[0].StartTime.Equal(began) {
			t.Errorf("servers %+v, error %v", servers, err)
		}
		if len(workers["one"]) != 1 || len(workers["odd"]) != 1 || workers["one"][0].TaskID != "t-one" {
			t.Errorf("workers %+v", workers)
		}
		started, err := b.Started(ctx, "q", []string{"t-one", "t-gone", "bad", "none"})
		if err != nil || len(started) != 1 || !started["t-one"].Equal(began) {
			t.Errorf("started %v, error %v", started, err)
		}
		if started, err := b.Started(ctx, "another", []string{"t-one"}); err != nil || len(started) != 0 {
			t.Errorf("in another queue started %v, error %v", started, err)
		}
	})
}

// A server with many workers is read in parts, and each of them is listed once.
func TestServersWithManyWorkers(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		const n = 3000
		ctx, b := context.Background(), r.Broker()
		for _, id := range []string{"one", "two"} {
			p := &rdb.Presence{Process: wire.Process{Host: "web", PID: 1, ID: id}, Info: []byte("x"), Busy: true, Started: make(map[string][]byte)}
			for i := range n {
				w := &wire.WorkerInfo{ServerID: id, TaskID: fmt.Sprint(id, i), Queue: "q"}
				encoded, err := w.Encode()
				must1(t, err)
				p.Started[w.TaskID] = encoded
			}
			_, err := b.Publish(ctx, p)
			must1(t, err)
		}
		_, workers, err := b.Servers(ctx)
		must1(t, err)
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

// A Redis that is no cluster says so; a miniredis takes itself for one.
func TestNodes(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		nodes, err := r.Broker().Nodes(context.Background(), "q")
		if r.IsMini() && (err != nil || len(nodes) != 1 || nodes[0].Addr == "") {
			t.Errorf("nodes %v, error %v", nodes, err)
		}
		if !r.IsMini() && (!rdb.Refused(err) || errors.Is(err, context.Canceled)) {
			t.Errorf("nodes %v, error %v", nodes, err)
		}
	})
}
