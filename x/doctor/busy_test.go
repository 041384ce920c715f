package doctor_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/rdbcheck"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
	"github.com/asynq-go/asynq/x/doctor"
)

// The transitions of another library, one script each, with the fields that it uses.
var (
	foreignFetch = redis.NewScript(`
		local id = redis.call("RPOPLPUSH", KEYS[1], KEYS[2])
		if id then
			redis.call("HSET", ARGV[1] .. id, "state", "active")
			redis.call("HDEL", ARGV[1] .. id, "pending_since")
			redis.call("ZADD", KEYS[3], ARGV[2], id)
		end
		return id`)
	foreignRequeue = redis.NewScript(`
		if redis.call("LREM", KEYS[2], 0, ARGV[2]) == 0 then return 0 end
		redis.call("ZREM", KEYS[3], ARGV[2])
		redis.call("RPUSH", KEYS[1], ARGV[2])
		redis.call("HSET", ARGV[1] .. ARGV[2], "state", "pending")
		return 1`)
	foreignDone = redis.NewScript(`
		if redis.call("LREM", KEYS[2], 0, ARGV[2]) == 0 then return 0 end
		redis.call("ZREM", KEYS[3], ARGV[2])
		local lock = redis.call("HGET", ARGV[1] .. ARGV[2], "unique_key")
		if lock and redis.call("GET", lock) == ARGV[2] then redis.call("DEL", lock) end
		redis.call("DEL", ARGV[1] .. ARGV[2])
		return 1`)
	foreignDelete = redis.NewScript(`
		if redis.call("LREM", KEYS[1], 0, ARGV[2]) == 0 then return 0 end
		local lock = redis.call("HGET", ARGV[1] .. ARGV[2], "unique_key")
		if lock and redis.call("GET", lock) == ARGV[2] then redis.call("DEL", lock) end
		redis.call("DEL", ARGV[1] .. ARGV[2])
		return 1`)
	foreignStage = redis.NewScript(`
		local ids = redis.call("ZRANGE", KEYS[1], 0, 9)
		for _, id in ipairs(ids) do
			redis.call("ZREM", KEYS[1], id)
			redis.call("ZADD", KEYS[2], ARGV[1], id)
		end
		if #ids > 0 then redis.call("ZADD", KEYS[3], ARGV[1] + 120, KEYS[2]) end
		if redis.call("EXISTS", KEYS[1]) == 0 then redis.call("SREM", KEYS[4], ARGV[2]) end
		return #ids`)
	unstage = redis.NewScript(`
		for _, id in ipairs(redis.call("ZRANGE", KEYS[2], 0, -1)) do
			redis.call("ZREM", KEYS[2], id)
			if ARGV[3] == "back" then
				redis.call("ZADD", KEYS[1], ARGV[1], id)
				redis.call("SADD", KEYS[4], ARGV[2])
			else
				redis.call("DEL", ARGV[4] .. id)
			end
		end
		redis.call("ZREM", KEYS[3], KEYS[2])
		return 1`)
)

// busy is a queue that processes of two libraries use.
type busy struct {
	*testing.T
	b      *rdb.Broker
	ctx    context.Context
	client redis.UniversalClient
	calls  atomic.Int64
}

// serve acts as clients and a server. It keeps at least two pages of tasks in the queue.
func (w *busy) serve(n int) {
	call := int(w.calls.Add(1))
	if w.client.DBSize(w.ctx).Val() < 2500 {
		w.produce(call)
	}
	w.work(call)
	if n%3 == 0 {
		w.tend()
	}
}

// produce creates tasks of all kinds.
func (w *busy) produce(n int) {
	var tasks []*rdb.NewTask
	for i := range 40 {
		id := fmt.Sprintf("n%d-%d", n, i)
		task := redistest.NewTask(w, "q", id)
		switch i % 4 {
		case 1:
			redistest.Lock(task, id)
		case 2:
			task.Group = []string{"g", "g:h"}[i/4%2]
		case 3:
			task.ProcessAt = time.Now().Unix() + int64(i%2)
		}
		tasks = append(tasks, task)
	}
	w.b.Enqueue(w.ctx, tasks...)
	for _, task := range tasks {
		if task.Err != nil {
			w.Errorf("enqueue: %v", task.Err)
		}
	}
}

// work fetches tasks and settles them with all outcomes.
func (w *busy) work(n int) {
	f := &rdb.Fetch{Queue: "q", N: 25, Token: fmt.Sprint("w", n), Lease: redistest.Lease}
	w.b.RoundTrip(w.ctx, &rdb.RoundTrip{Fetch: []*rdb.Fetch{f}})
	if n%10 == 9 {
		for u := (&rdb.Reclaim{Queue: "q", Token: f.Token}); ; {
			if w.b.RoundTrip(w.ctx, &rdb.RoundTrip{Reclaim: []*rdb.Reclaim{u}}); u.Err != nil || u.Done() {
				return
			}
		}
	}
	var settle []*rdb.Settlement
	for i, task := range f.Tasks {
		settle = append(settle, &rdb.Settlement{
			Queue: "q", ID: task.ID, Token: f.Token, Outcome: []rdb.Outcome{rdb.Done, rdb.Complete, rdb.Retry, rdb.Archive, rdb.Requeue}[i%5],
			Lock: "asynq:{q}:unique:test:" + task.ID, Delay: time.Millisecond, Retention: 1,
		})
	}
	w.b.RoundTrip(w.ctx, &rdb.RoundTrip{Settle: settle})
	for _, s := range settle {
		if s.Err != nil || s.Code != script.CodeOK {
			w.Errorf("%v: code %d, error %v", s.Outcome, s.Code, s.Err)
		}
	}
}

// tend runs the background loops of a server.
func (w *busy) tend() {
	w.b.Forward(w.ctx, []string{"q"}, nil)
	for _, state := range []wire.State{wire.StateCompleted, wire.StateArchived} {
		if _, err := w.b.Purge(w.ctx, "q", state, 50); err != nil {
			w.Error(err)
		}
	}
}

// foreign acts as a process of another library.
func (w *busy) foreign(n int) {
	k := w.b.Keys("q")
	keys := []string{k.Pending(), k.Active(), k.Lease()}
	id, err := foreignFetch.Run(w.ctx, w.client, keys, k.TaskPrefix(), time.Now().Add(time.Minute).Unix()).Text()
	if err != nil {
		return
	}
	end := foreignDone
	if n%3 == 0 {
		end = foreignRequeue
	}
	if err := end.Run(w.ctx, w.client, keys, k.TaskPrefix(), id).Err(); err != nil {
		w.Error(err)
	}
	if waiting := w.client.LRange(w.ctx, k.Pending(), 0, 20).Val(); len(waiting) > 0 { // as its inspector deletes one
		if err := foreignDelete.Run(w.ctx, w.client, keys, k.TaskPrefix(), waiting[rand.IntN(len(waiting))]).Err(); err != nil {
			w.Error(err)
		}
	}
}

// aggregate stages tasks of a group, and returns or deletes those that it staged before.
func (w *busy) aggregate(n int) {
	k := w.b.Keys("q")
	keys := func(n int) (group string, keys []string) {
		group = []string{"g", "g:h"}[n%2]
		return group, []string{k.Group(group), k.AggregationSet(group, fmt.Sprint("set", n)), k.AggregationSets(), k.Groups()}
	}
	group, in := keys(n)
	if err := foreignStage.Run(w.ctx, w.client, in, time.Now().Unix(), group).Err(); err != nil {
		w.Error(err)
	}
	if n == 0 {
		return
	}
	what := "delete"
	if n%3 == 0 {
		what = "back"
	}
	group, in = keys(n - 1)
	if err := unstage.Run(w.ctx, w.client, in, time.Now().Unix(), group, what, k.TaskPrefix()).Err(); err != nil {
		w.Error(err)
	}
}

// A doctor finds nothing on a busy queue, with repair and without it.
func TestDiagnoseOfBusyQueue(t *testing.T) {
	for name, budget := range map[string]int{"short lists": 50_000, "long lists": 1000} {
		t.Run(name, func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				w := &busy{T: t, b: r.Broker(), ctx: context.Background(), client: r.Client()}
				r.AllowViolations() // see the end
				r.Enqueue(t, "q", 1300)
				rounds := 4
				if r.IsMini() {
					rounds = 1 // it is slow with many clients
				}
				var actors, doctors sync.WaitGroup
				stop := make(chan struct{})
				w.b.Archive.Tasks = 300
				for _, act := range []func(int){w.serve, w.serve, w.foreign, w.aggregate} {
					actors.Go(func() {
						for n := 0; ; n++ {
							select {
							case <-stop:
								return
							default:
								act(n)
							}
						}
					})
				}
				for _, repair := range []bool{false, true} {
					doctors.Go(func() {
						for range rounds {
							opts := doctor.Options{Repair: repair}.WithMaxSearch(budget)
							for f, err := range doctor.Diagnose(w.ctx, asynq.SharedRedisClient(w.client), opts) {
								t.Errorf("repair %v: found %+v, error %v", repair, f, err)
							}
						}
					})
				}
				doctors.Wait()
				close(stop)
				actors.Wait()
				found, err := rdbcheck.Check(w.ctx, w.client, "")
				if err != nil {
					t.Error(err)
				}
				for _, v := range found {
					if !strings.HasSuffix(v.Text, "has no pending_since") { // which is how the other library gives tasks back
						t.Errorf("broken invariant: %v", v)
					}
				}
			})
		})
	}
}

// At its maxmemory, Redis still allows the repairs that tasks need to run.
func TestDiagnoseOfFullRedis(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t, "--maxmemory-policy", "noeviction")
	ctx, client := context.Background(), s.Client(t)
	b := rdb.New(client, "")
	k := b.Keys("q")
	b.Enqueue(ctx, redistest.NewTask(t, "q", "a"), redistest.NewTask(t, "q", "b"), redistest.NewTask(t, "q", "c"))
	redistest.Fetch(t, b, rdb.Fetch{N: 2})
	redistest.Must(t, client.Del(ctx, k.Pending(), k.Lease()))
	redistest.Must(t, client.LPush(ctx, k.Pending(), "x"))
	redistest.Must(t, client.ZAdd(ctx, k.Retry(), redis.Z{Member: "x"}))
	redistest.Must(t, client.LRem(ctx, k.Active(), 1, "a"))
	redistest.Must(t, client.ConfigSet(ctx, "maxmemory", "1"))
	if got := diagnose(t, b, doctor.Options{Repair: true}); len(got) != 5 {
		t.Errorf("repaired %q", got)
	}
	redistest.Must(t, client.ConfigSet(ctx, "maxmemory", "0"))
	redistest.CheckServer(t, client)
}
