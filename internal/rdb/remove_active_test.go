package rdb_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// A batch removes exactly its tasks from the active list, wherever they are. The others stay, in
// their order.
func TestRemoveActive(t *testing.T) {
	const n = 400
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // A test that can be repeated.
	shuffled := func(numbers []int) []int {
		numbers = slices.Clone(numbers)
		random.Shuffle(len(numbers), func(i, j int) { numbers[i], numbers[j] = numbers[j], numbers[i] })
		return numbers
	}
	between := func(first, last, step int) []int {
		var numbers []int
		for i := first; i <= last; i += step {
			numbers = append(numbers, i)
		}
		return numbers
	}
	reversed := func(numbers []int) []int {
		slices.Reverse(numbers)
		return numbers
	}
	tests := map[string][]int{ // of the tasks 1 to n; 1 was taken first and is at the tail
		"oldest":                 {1},
		"newest":                 {n},
		"one near the head":      {n - 40},
		"one in the middle":      {n / 2},
		"one near the tail":      {5},
		"none":                   nil,
		"in order":               between(1, 100, 1),
		"in reverse":             reversed(between(1, 100, 1)),
		"newest in order":        between(n-99, n, 1),
		"in random order":        shuffled(between(1, 150, 1)),
		"with others in between": between(1, 210, 3),
		"newest with others":     between(n-210, n, 3),
		"oldest far apart":       between(1, 210, 30),
		"both ends":              append(between(1, 60, 2), between(n-60, n, 2)...),
		"anywhere":               shuffled(between(1, n, 1))[:90],
		"the middle only":        between(n/2-5, n/2+5, 1),
		"ends and middle":        shuffled([]int{1, 2, 100, 200, 300, n - 1, n}),
		"all":                    shuffled(between(1, n, 1)),
	}
	for name, numbers := range tests {
		t.Run(name, func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				ctx, b := context.Background(), r.Broker()
				r.Enqueue(t, "q", n)
				redistest.Fetch(t, b, rdb.Fetch{N: n})
				want := between(1, n, 1)
				var batch []*rdb.Settlement
				removed := make(map[int]bool)
				for _, i := range numbers {
					removed[i] = true
					batch = append(batch, &rdb.Settlement{Queue: "q", ID: fmt.Sprint("t", i), Token: "f", Outcome: rdb.Done})
				}
				want = slices.DeleteFunc(want, func(i int) bool { return removed[i] })
				b.RoundTrip(ctx, &rdb.RoundTrip{Settle: batch})
				for _, s := range batch {
					if s.Err != nil || s.Code != script.CodeOK {
						t.Fatalf("%s: code %d, error %v", s.ID, s.Code, s.Err)
					}
				}
				left := make([]string, 0, len(want))
				for _, i := range slices.Backward(want) {
					left = append(left, fmt.Sprint("t", i))
				}
				if active := r.Client().LRange(ctx, "asynq:{q}:active", 0, -1).Val(); !slices.Equal(active, left) {
					t.Errorf("active holds %d IDs, not the %d that it should in their order: %v", len(active), len(left), active)
				}
			})
		})
	}
}

// A batch removes exactly its tasks from a long active list, whether their positions are stored,
// stale because others have removed entries, or missing because the list was short at their fetch.
// All tasks finish, and afterwards the list is empty. A miniredis copies the whole list for each
// task that is fetched, so there the list is shorter: 1,000 tasks have a position, and 2,000 have
// none.
func TestRemoveActiveFromLongList(t *testing.T) {
	for name, c := range map[string]struct {
		order func(ids []string)
		batch int
		lrem  bool // another library removes an ID in the middle
	}{
		"oldest first": {order: func([]string) {}, batch: 100},
		"newest first": {order: slices.Reverse[[]string], batch: 100},
		"one by one":   {order: shuffle, batch: 1},
		"random":       {order: shuffle, batch: 7},
		"many":         {order: shuffle, batch: 500},
		"LREM":         {order: shuffle, batch: 7, lrem: true},
		"LREM of many": {order: shuffle, batch: 100, lrem: true},
	} {
		t.Run(name, func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				ctx, b, n := context.Background(), r.Broker(), 4500
				if r.IsMini() {
					n = 3000
				}
				ids := r.Enqueue(t, "q", n)
				for range n / 500 {
					redistest.Fetch(t, b, rdb.Fetch{N: 500})
				}
				c.order(ids)
				if c.lrem {
					redistest.Must(t, r.Client().LRem(ctx, "asynq:{q}:active", 1, ids[n-1]))
				}
				for done := 0; done < n; {
					size := c.batch
					if n-done < 1800 { // the list is short, for TestRemoveActive
						size = 500
					}
					first := done
					done = min(done+size, n)
					var batch []*rdb.Settlement
					for _, id := range ids[first:done] {
						batch = append(batch, &rdb.Settlement{Queue: "q", ID: id, Token: "f", Outcome: rdb.Done})
					}
					b.RoundTrip(ctx, &rdb.RoundTrip{Settle: batch})
					for _, s := range batch {
						if s.Err != nil || s.Code != script.CodeOK {
							t.Fatalf("%s: code %d, error %v", s.ID, s.Code, s.Err)
						}
					}
					if first == 0 || done%1000 < size {
						wantActive(t, r, ids[done:], c.lrem)
					}
				}
				wantActive(t, r, nil, false)
			})
		})
	}
}

func shuffle(ids []string) {
	rand.New(rand.NewPCG(3, 4)).Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] }) //nolint:gosec // A test that can be repeated.
}

// wantActive fails unless the active list holds exactly these IDs. In a long list the stored
// positions must be right, too, unless the last ID was removed from the list by another library.
func wantActive(t *testing.T, r *redistest.Redis, ids []string, lrem bool) {
	t.Helper()
	ctx := context.Background()
	active := r.Client().LRange(ctx, "asynq:{q}:active", 0, -1).Val()
	positions := make([]*redis.StringCmd, len(active))
	_, err := r.Client().Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, id := range active {
			positions[i] = pipe.HGet(ctx, "asynq:{q}:t:"+id, wire.FieldPosition)
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
	for i, p := range positions {
		position := len(active) - i
		if p.Val() == "" && position <= 2000 || len(active) < 2000 || lrem {
			continue // fetched while the list was short, or moved
		}
		if want := strconv.Itoa(position); p.Val() != want {
			t.Fatalf("the stored position of %q is %q, want %s", active[i], p.Val(), want)
		}
	}
	if lrem && len(ids) > 0 {
		ids = ids[:len(ids)-1]
	}
	if want := slices.Sorted(slices.Values(ids)); !slices.Equal(slices.Sorted(slices.Values(active)), want) {
		t.Fatalf("active holds %d IDs, not the %d that it should", len(active), len(want))
	}
}

// BenchmarkRemoveActive settles tasks in random order while the queue has 100,000 active tasks. It
// reports the longest time that Redis was busy with one call.
//
//	go test -run '^$' -bench RemoveActive -benchtime 1x ./internal/rdb
func BenchmarkRemoveActive(b *testing.B) {
	const n = 100_000
	for range b.N {
		b.StopTimer()
		server := redistest.StartServer(b)
		client := server.Client(b)
		broker, ctx := rdb.New(client, ""), context.Background()
		ids := make([]string, n)
		for first := 0; first < n; first += 500 {
			tasks := make([]*rdb.NewTask, 500)
			for i := range tasks {
				ids[first+i] = fmt.Sprintf("%036d", first+i)
				tasks[i] = &rdb.NewTask{ID: ids[first+i], Queue: "q", Message: []byte("message")}
			}
			broker.Enqueue(ctx, tasks...)
			broker.RoundTrip(ctx, &rdb.RoundTrip{Fetch: []*rdb.Fetch{{Queue: "q", N: 500, Token: "f", Lease: redistest.Lease}}})
		}
		rand.Shuffle(n, func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		for _, cmd := range []redis.Cmder{
			client.ConfigSet(ctx, "slowlog-log-slower-than", "1000"), client.ConfigSet(ctx, "slowlog-max-len", "100000"),
			client.Do(ctx, "SLOWLOG", "RESET"), client.ConfigResetStat(ctx),
		} {
			if err := cmd.Err(); err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
		const ended = 5000
		for first := 0; first < ended; first += 500 {
			trip := &rdb.RoundTrip{}
			for _, id := range ids[first : first+500] {
				trip.Settle = append(trip.Settle, &rdb.Settlement{Queue: "q", ID: id, Token: "f", Outcome: rdb.Done})
			}
			broker.RoundTrip(ctx, trip)
			if s := trip.Settle[0]; s.Err != nil || s.Code != script.CodeOK {
				b.Fatalf("code %d, error %v", s.Code, s.Err)
			}
		}
		b.StopTimer()
		b.ReportMetric(ended/b.Elapsed().Seconds()*float64(b.N), "tasks/s")
		redistest.ReportCalls(ctx, b, client)
		server.Stop()
		b.StartTimer()
	}
}

// IDs that are missing from active do not stop the removal of the others.
func TestRemoveActiveOfMissingIDs(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		r.Enqueue(t, "q", 4)
		f := r.Fetch(t, "q", 4)
		redistest.Must(t, r.Client().LRem(ctx, "asynq:{q}:active", 1, "t2"))
		redistest.Must(t, r.Client().LRem(ctx, "asynq:{q}:active", 1, "t4"))
		var batch []*rdb.Settlement
		for _, id := range []string{"t1", "t2", "t3"} {
			batch = append(batch, &rdb.Settlement{Queue: "q", ID: id, Token: f.Token, Outcome: rdb.Done})
		}
		b.RoundTrip(ctx, &rdb.RoundTrip{Settle: batch})
		redistest.Settle(t, b, rdb.Settlement{ID: "t4", Token: f.Token, Outcome: rdb.Done})
		redistest.WantDump(t, r, `
			asynq:queues = {q}
			Q:marker = [1] ttl 1m0s
			Q:processed = 4
			Q:processed:today = 4 ttl 2160h0m0s
		`)
	})
}
