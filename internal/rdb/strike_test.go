package rdb_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
)

// What a batch takes out of the active list must be exactly its tasks, wherever they stand, and the others stay in their order.
func TestStrike(t *testing.T) {
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
				fetch(t, b, rdb.Fetch{N: n})
				want := between(1, n, 1)
				var batch []*rdb.Settlement
				struck := make(map[int]bool)
				for _, i := range numbers {
					struck[i] = true
					batch = append(batch, &rdb.Settlement{Queue: "q", ID: fmt.Sprint("t", i), Token: "f", Outcome: rdb.Done})
				}
				want = slices.DeleteFunc(want, func(i int) bool { return struck[i] })
				b.Turn(ctx, &rdb.Turn{Settle: batch})
				for _, s := range batch {
					if s.Err != nil || s.Code != rdb.CodeOK {
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

// Many IDs far from both ends are found in one reading of the list, a part of it after the other.
func TestStrikeOutOfALongList(t *testing.T) {
	const n = 4500
	random := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // A test that can be repeated.
	for name, numbers := range map[string][]int{
		"anywhere":   random.Perm(n)[:100],
		"many":       random.Perm(n)[:500],
		"the middle": {2100, 2200, 2204, 2209, 2201, 2300, 2400, 2600, 2500, 2700, 2701, 2702},
		"a few":      {2100, 2500, 2300},
	} {
		t.Run(name, func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				ctx, b := context.Background(), r.Broker()
				made := r.Enqueue(t, "q", n)
				for range n / 500 {
					fetch(t, b, rdb.Fetch{N: 500})
				}
				must(t, r.Client().LRem(ctx, "asynq:{q}:active", 1, made[numbers[0]])) // one is missing
				want := r.Client().LRange(ctx, "asynq:{q}:active", 0, -1).Val()
				var batch []*rdb.Settlement
				for _, i := range numbers {
					batch = append(batch, &rdb.Settlement{Queue: "q", ID: made[i], Token: "f", Outcome: rdb.Done})
					want = slices.DeleteFunc(want, func(id string) bool { return id == made[i] })
				}
				b.Turn(ctx, &rdb.Turn{Settle: batch})
				for _, s := range batch {
					if s.Err != nil || s.Code != rdb.CodeOK {
						t.Fatalf("%s: code %d, error %v", s.ID, s.Code, s.Err)
					}
				}
				if active := r.Client().LRange(ctx, "asynq:{q}:active", 0, -1).Val(); !slices.Equal(active, want) {
					t.Errorf("active holds %d IDs, not the %d that it should in their order", len(active), len(want))
				}
			})
		})
	}
}

// BenchmarkStrike ends tasks in any order while 100,000 of the queue are active, and reports how long Redis was busy with one call at most.
//
//	go test -run '^$' -bench Strike -benchtime 1x ./internal/rdb
func BenchmarkStrike(b *testing.B) {
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
			broker.Turn(ctx, &rdb.Turn{Fetch: []*rdb.Fetch{{Queue: "q", N: 500, Token: "f", Lease: redistest.Lease}}})
		}
		rand.Shuffle(n, func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		for _, cmd := range []redis.Cmder{
			client.ConfigSet(ctx, "slowlog-log-slower-than", "1000"), client.ConfigSet(ctx, "slowlog-max-len", "100000"),
			client.SlowLogReset(ctx), client.ConfigResetStat(ctx),
		} {
			if err := cmd.Err(); err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
		const ended = 5000
		for first := 0; first < ended; first += 500 {
			turn := &rdb.Turn{}
			for _, id := range ids[first : first+500] {
				turn.Settle = append(turn.Settle, &rdb.Settlement{Queue: "q", ID: id, Token: "f", Outcome: rdb.Done})
			}
			broker.Turn(ctx, turn)
			if s := turn.Settle[0]; s.Err != nil || s.Code != rdb.CodeOK {
				b.Fatalf("code %d, error %v", s.Code, s.Err)
			}
		}
		b.StopTimer()
		b.ReportMetric(ended/b.Elapsed().Seconds()*float64(b.N), "tasks/s")
		reportCalls(ctx, b, client)
		server.Stop()
		b.StartTimer()
	}
}

// IDs that are missing from active do not keep the others from going.
func TestStrikeWhereActiveLacksTasks(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		r.Enqueue(t, "q", 4)
		f := r.Fetch(t, "q", 4)
		must(t, r.Client().LRem(ctx, "asynq:{q}:active", 1, "t2"))
		must(t, r.Client().LRem(ctx, "asynq:{q}:active", 1, "t4"))
		var batch []*rdb.Settlement
		for _, id := range []string{"t1", "t2", "t3"} {
			batch = append(batch, &rdb.Settlement{Queue: "q", ID: id, Token: f.Token, Outcome: rdb.Done})
		}
		b.Turn(ctx, &rdb.Turn{Settle: batch})
		settle(t, b, rdb.Settlement{ID: "t4", Token: f.Token, Outcome: rdb.Done})
		wantDump(t, r, `
			asynq:queues = {q}
			Q:marker = [1] ttl 1m0s
			Q:processed = 4
			Q:processed:today = 4 ttl 2160h0m0s
		`)
	})
}
