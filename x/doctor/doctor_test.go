package doctor_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/inspect"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/x/doctor"
)

// diagnose returns the findings as "kind key-without-prefix id", sorted. With
// Options.Repair each finding that has a repair must be repaired, otherwise none.
func diagnose(t *testing.T, b *rdb.Broker, d doctor.Options) []string {
	t.Helper()
	got := []string{}
	for f, err := range doctor.Diagnose(context.Background(), asynq.SharedRedisClient(b.Client()), d) {
		if err != nil {
			t.Errorf("diagnosis: %v", err)
			continue
		}
		line := strings.TrimSpace(fmt.Sprintf("%s %s %s", f.Kind, strings.TrimPrefix(f.Key, "asynq:{q}:"), f.TaskID))
		got = append(got, line)
		if f.Repaired != (d.Repair && f.Repair != "") {
			t.Errorf("%s: repaired %v by %q", line, f.Repaired, f.Repair)
		}
		if f.Detail == "" || f.Queue == "" {
			t.Errorf("%s: detail %q of queue %q", line, f.Detail, f.Queue)
		}
	}
	slices.Sort(got)
	return got
}

// stateOf returns the state of a task, or the text of the error.
func stateOf(t *testing.T, b *rdb.Broker, id string) string {
	t.Helper()
	info, err := inspect.New(b).TaskInfo(context.Background(), "q", id)
	if err != nil {
		return err.Error()
	}
	return info.State.String()
}

func TestDiagnoseFindsNothingInSoundData(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, client := context.Background(), r.Client()
		redistest.SeedStates(t, r)
		keys := r.Broker().Keys("q")
		for _, task := range []struct{ group, id string }{{"a:b", "t9"}, {"a", "t10"}} {
			set := keys.AggregationSet(task.group, "b6b0e4c4")
			redistest.Must(t, client.HSet(ctx, keys.Task(task.id), "state", "aggregating", "group", task.group,
				"msg", redistest.Encode(t, redistest.Message("q", task.id))))
			redistest.Must(t, client.ZAdd(ctx, set, redis.Z{Score: 1, Member: task.id}))
			redistest.Must(t, client.ZAdd(ctx, keys.AggregationSets(), redis.Z{Score: 1, Member: set}))
		}
		colons := redistest.NewTask(t, "q", "t11")
		colons.Group = "a:b"
		r.Make(t, colons)
		for _, repair := range []bool{false, true} {
			redistest.Unchanged(t, r, "a diagnosis", func() {
				if got := diagnose(t, r.Broker(), doctor.Options{Repair: repair}); len(got) > 0 {
					t.Errorf("found %q", got)
				}
			})
		}
	})
}

// For a task with a group, other libraries do not store the lock in the task's hash: only the
// message names it.
func TestDiagnoseKeepsTheLockThatOnlyTheMessageKnows(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, client, keys := context.Background(), r.Client(), r.Broker().Keys("q")
		m := redistest.Message("q", "t1")
		m.Group, m.UniqueKey = "g", "asynq:{q}:unique:test:1"
		task := redistest.NewTask(t, "q", "t1")
		task.Message, task.Group, task.Lock, task.LockTTL = redistest.Encode(t, m), "g", m.UniqueKey, 60
		r.Make(t, task)
		redistest.Must(t, client.HDel(ctx, keys.Task("t1"), "unique_key"))
		if got := diagnose(t, r.Broker(), doctor.Options{Repair: true}); len(got) > 0 || client.Exists(ctx, m.UniqueKey).Val() != 1 {
			t.Errorf("found %q", got)
		}
		redistest.Must(t, client.HSet(ctx, keys.Task("t1"), "unique_key", "asynq:{q}:unique:test:2"))
		if got := diagnose(t, r.Broker(), doctor.Options{Repair: true}); len(got) != 1 || client.Exists(ctx, m.UniqueKey).Val() != 0 {
			t.Errorf("of a lock that the task's hash denies, found %q", got)
		}
	})
}

// A finding of each kind is reported, repaired, and not found again; the task it concerns can run
// afterwards.
func TestDiagnose(t *testing.T) {
	const p = "asynq:{q}:"
	text := redistest.Encode(t, redistest.Message("q", "t1"))
	failed := redistest.Message("q", "t5")
	failed.LastFailedAt = 1_600_000_000
	type plant func(ctx context.Context, c redis.UniversalClient) redis.Cmder
	do := func(args ...any) plant {
		return func(ctx context.Context, c redis.UniversalClient) redis.Cmder { return c.Do(ctx, args...) }
	}
	tests := []struct {
		name   string
		plant  []plant
		want   []string
		state  map[string]string // after the repair; "" stands for a task that is gone
		broken bool              // for rdb.Check even so
	}{
		{name: "active without lease", plant: []plant{do("zrem", p+"lease", "t2")},
			want: []string{"active-without-lease lease t2"}, state: map[string]string{"t2": "active"}},
		{name: "no leases at all", plant: []plant{do("del", p+"lease")},
			want: []string{"active-without-lease lease t2"}, state: map[string]string{"t2": "active"}},
		{name: "lease of an idle task", plant: []plant{do("zadd", p+"lease", 1, "t1")}, want: []string{"lease-without-active lease t1"}},
		{name: "lease of no task", plant: []plant{do("zadd", p+"lease", 1, "x")}, want: []string{"lease-without-active lease x"}},
		{name: "orphan in pending state", plant: []plant{do("del", p+"pending")},
			want: []string{"orphan-task t:t1 t1", "orphan-task t:t8 t8"}, state: map[string]string{"t1": "pending", "t8": "pending"}},
		{name: "orphan without pending_since", plant: []plant{do("del", p+"pending"), do("hdel", p+"t:t1", "pending_since")},
			want: []string{"orphan-task t:t1 t1", "orphan-task t:t8 t8"}, state: map[string]string{"t1": "pending"}},
		{name: "orphan in active state", plant: []plant{do("del", p+"active", p+"lease")},
			want: []string{"orphan-task t:t2 t2"}, state: map[string]string{"t2": "active"}},
		{name: "leased orphan in active state", plant: []plant{do("del", p+"active")}, want: []string{"orphan-task t:t2 t2"}},
		{name: "orphans of the sorted sets", plant: []plant{do("del", p+"scheduled", p+"retry", p+"archived", p+"completed")},
			want: []string{"orphan-task t:t3 t3", "orphan-task t:t4 t4", "orphan-task t:t5 t5", "orphan-task t:t6 t6"}},
		{name: "orphan of the archive", plant: []plant{do("zrem", p+"archived", "t5"), do("hset", p+"t:t5", "msg", redistest.Encode(t, failed))},
			want: []string{"orphan-task t:t5 t5"}, state: map[string]string{"t5": "archived"}},
		{name: "orphan of a group", plant: []plant{do("del", p+"g:g")}, want: []string{"empty-group-name groups", "orphan-task t:t7 t7"}},
		{name: "aggregating without a group", plant: []plant{do("hdel", p+"t:t7", "group")},
			want: []string{"dangling-id g:g t7", "orphan-task t:t7 t7"}, state: map[string]string{"t7": "pending"}},
		{name: "unreadable orphan", plant: []plant{do("del", p+"retry"), do("hset", p+"t:t4", "msg", "\x0a\xff")},
			want: []string{"unreadable-message t:t4 t4"}, broken: true},
		{name: "lock of no task", plant: []plant{do("set", p+"unique:test:1", "gone")}, want: []string{"orphan-lock unique:test:1 gone"}},
		{name: "lock that its task does not know", plant: []plant{do("set", p+"unique:test:1", "t8")},
			want: []string{"orphan-lock unique:test:1 t8"}, state: map[string]string{"t8": "pending"}},
		{name: "dangling IDs of lists", plant: []plant{do("lpush", p+"pending", "x", "y"), do("rpush", p+"pending", "x", "z"),
			do("rpush", p+"active", "x"), do("lpush", p+"pending", "t3")},
			want: []string{"dangling-id active x", "dangling-id pending x", "dangling-id pending y", "dangling-id pending z", "in-two-collections pending t3"}},
		{name: "dangling IDs of sorted sets", plant: []plant{do("zadd", p+"scheduled", 1, "x"), do("zadd", p+"retry", 1, "x"),
			do("zadd", p+"archived", 1, "x"), do("zadd", p+"completed", 1, "x"), do("zadd", p+"g:g", 1, "x")},
			want: []string{"dangling-id archived x", "dangling-id completed x", "dangling-id g:g x", "dangling-id retry x", "dangling-id scheduled x"}},
		{name: "in the wrong collection", plant: []plant{do("hset", p+"t:t3", "state", "retry")},
			want: []string{"dangling-id scheduled t3", "orphan-task t:t3 t3"}, state: map[string]string{"t3": "retry"}},
		{name: "in two collections", plant: []plant{do("zadd", p+"retry", 1, "t1"), do("zadd", p+"archived", 1, "t2"), do("zadd", p+"completed", 1, "t5")},
			want: []string{"in-two-collections archived t2", "in-two-collections completed t5", "in-two-collections retry t1"}},
		{name: "in two groups", plant: []plant{do("zadd", p+"g:h", 1, "t7"), do("sadd", p+"groups", "h")},
			want: []string{"in-two-collections g:h t7"}},
		{name: "twice in a list", plant: []plant{do("lpush", p+"pending", "t1", "t1"), do("rpush", p+"active", "t2")},
			want: []string{"in-two-collections active t2", "in-two-collections pending t1"}},
		{name: "invalid state in collections", plant: []plant{do("hset", p+"t:t1", "state", "finished"), do("hdel", p+"t:t6", "state"),
			do("hset", p+"t:t2", "state", "running"), do("hset", p+"t:t7", "state", "x")},
			want:  []string{"invalid-state t:t1 t1", "invalid-state t:t2 t2", "invalid-state t:t6 t6", "invalid-state t:t7 t7"},
			state: map[string]string{"t1": "pending", "t2": "active", "t6": "completed", "t7": "aggregating"}},
		{name: "invalid state in none", plant: []plant{do("hset", p+"t:t4", "state", "finished"), do("del", p+"retry")},
			want: []string{"invalid-state t:t4 t4"}, state: map[string]string{"t4": "archived"}},
		{name: "unreadable messages", plant: []plant{do("hset", p+"t:t1", "msg", "\x0a\xff"), do("hdel", p+"t:t3", "msg"),
			do("hset", p+"t:t4", "msg", text), do("hset", p+"t:t7", "msg", "\xff")},
			want: []string{"unreadable-message t:t1 t1", "unreadable-message t:t3 t3", "unreadable-message t:t4 t4",
				"unreadable-message t:t7 t7"}, broken: true},
		{name: "unreadable and active without lease", plant: []plant{do("hset", p+"t:t2", "msg", "\xff"), do("del", p+"lease")},
			want: []string{"unreadable-message t:t2 t2"}, broken: true},
		{name: "missing group name", plant: []plant{do("del", p+"groups")}, want: []string{"missing-group-name groups"},
			state: map[string]string{"t7": "aggregating"}},
		{name: "empty group name", plant: []plant{do("sadd", p+"groups", "h", "i:j")}, want: []string{"empty-group-name groups", "empty-group-name groups"}},
		{name: "missing aggregation set", plant: []plant{do("rename", p+"g:g", p+"g:g:b6b0e4c4"), do("del", p+"groups")},
			want: []string{"missing-aggregation-set aggregation_sets", "orphan-task t:t7 t7"}, broken: true},
		{name: "stale aggregation set", plant: []plant{do("zadd", p+"aggregation_sets", 1, p+"g:g:gone"), do("zadd", p+"aggregation_sets", 1, "garbage")},
			want: []string{"stale-aggregation-set aggregation_sets", "stale-aggregation-set aggregation_sets"}},
		{name: "unregistered queue", plant: []plant{do("del", "asynq:queues")}, want: []string{"unregistered-queue asynq:queues"}},
		{name: "wrong types", plant: []plant{do("set", p+"t:x", 1), do("lpush", p+"unique:test:1", 1), do("set", p+"g:h", 1)},
			want: []string{"wrong-type g:h", "wrong-type t:x x", "wrong-type unique:test:1"}, broken: true},
		{name: "wrong type of pending", plant: []plant{do("del", p+"pending"), do("set", p+"pending", 1), do("zadd", p+"retry", 1, "x")},
			want: []string{"dangling-id retry x", "wrong-type pending"}, broken: true},
		{name: "wrong type of active and lease", plant: []plant{do("del", p+"active", p+"lease"), do("set", p+"active", 1), do("set", p+"lease", 1)},
			want: []string{"wrong-type active", "wrong-type lease"}, broken: true},
		{name: "wrong type of sets", plant: []plant{do("del", p+"groups", p+"retry"), do("set", p+"groups", 1), do("set", p+"retry", 1),
			do("set", p+"aggregation_sets", 1)},
			want: []string{"wrong-type aggregation_sets", "wrong-type groups", "wrong-type retry"}, broken: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				ctx, b := context.Background(), r.Broker()
				if tt.broken {
					r.AllowViolations()
				}
				redistest.SeedStates(t, r)
				before := map[string]string{}
				for i := range 8 {
					id := fmt.Sprint("t", i+1)
					before[id] = stateOf(t, b, id)
				}
				for _, plant := range tt.plant {
					redistest.Must(t, plant(ctx, r.Client()))
				}
				slices.Sort(tt.want)
				redistest.Unchanged(t, r, "a look", func() {
					if diff := cmp.Diff(tt.want, diagnose(t, b, doctor.Options{Queues: []string{"q"}})); diff != "" {
						t.Errorf("a look finds (-want +got):\n%s", diff)
					}
				})
				repaired := diagnose(t, b, doctor.Options{Repair: true})
				for _, line := range tt.want {
					if !slices.Contains(repaired, line) && !strings.HasPrefix(line, "orphan-task") {
						t.Errorf("the repair does not tell of %q, only of %q", line, repaired)
					}
				}
				for _, line := range diagnose(t, b, doctor.Options{}) {
					if !strings.HasPrefix(line, "wrong-type") {
						t.Errorf("after the repair: %s", line)
					}
				}
				for id, state := range tt.state {
					before[id] = state
				}
				if strings.HasPrefix(tt.name, "unreadable") || strings.HasPrefix(tt.name, "wrong") {
					return
				}
				for id, state := range before {
					if got := stateOf(t, b, id); got != state {
						t.Errorf("%s is %q after the repair, want %q", id, got, state)
					}
				}
			})
		})
	}
}

// Repaired tasks run: from pending, through the recoverer, or through the forwarder.
func TestDiagnosedTasksRun(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b, client := context.Background(), r.Broker(), r.Client()
		redistest.SeedStates(t, r)
		redistest.Must(t, client.Del(ctx, "asynq:{q}:pending", "asynq:{q}:active", "asynq:{q}:lease", "asynq:{q}:scheduled", "asynq:{q}:retry"))
		if got := diagnose(t, b, doctor.Options{Repair: true}); len(got) != 5 {
			t.Errorf("repaired %q", got)
		}
		if due := redistest.Forward(t, b); due.Moved != 2 {
			t.Errorf("forwarded %+v", due)
		}
		if expired, _, _, err := b.Expired(ctx, "q", 0, 10); err != nil || len(expired) != 0 {
			t.Errorf("the lease of a repaired task ended at once: %v, error %v", expired, err)
		}
		redistest.ExpireLeases(t, r, time.Hour, "t2")
		expired, _, _, err := b.Expired(ctx, "q", 0, 10)
		if err != nil || len(expired) != 1 || len(expired[0].Message) == 0 {
			t.Fatalf("expired: %v, error %v", expired, err)
		}
		item := &rdb.Settlement{Queue: "q", Outcome: rdb.Requeue, ID: "t2", Token: expired[0].Token}
		if b.Recover(ctx, []*rdb.Settlement{item}); item.Err != nil || item.Code != script.CodeOK {
			t.Errorf("recovery: %+v", item)
		}
		f := redistest.Fetch(t, b, rdb.Fetch{N: 10})
		got := redistest.IDs(f)
		slices.Sort(got)
		if diff := cmp.Diff([]string{"t1", "t2", "t3", "t4", "t8"}, got); diff != "" {
			t.Errorf("fetched (-want +got):\n%s", diff)
		}
	})
}

// Diagnose checks only the queues of Options.Queues. The loop may end at any time.
func TestDiagnoseSome(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.AllowViolations()
		ctx, b := context.Background(), r.Broker()
		for _, q := range []string{"q", "r", "s"} {
			redistest.Must(t, r.Client().LPush(ctx, b.Keys(q).Pending(), "x", "y", "z"))
		}
		for n, queues := range map[int][]string{3: {"q"}, 6: {"q", "s"}, 9: nil, 0: {"none"}} {
			got := diagnose(t, b, doctor.Options{Queues: queues})
			if len(got) != n+n/3 { // no list names the queues
				t.Errorf("of %v: %q", queues, got)
			}
		}
		n := 0
		for _, err := range doctor.Diagnose(ctx, asynq.SharedRedisClient(r.Client()), doctor.Options{}) {
			if n++; err != nil || n == 2 {
				break
			}
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		n = 0
		var last error
		for f, err := range doctor.Diagnose(ctx, asynq.SharedRedisClient(r.Client()), doctor.Options{}) {
			if f != nil {
				n++
			}
			last = err
			cancel()
		}
		if n == 0 || n > 3 || last == nil {
			t.Errorf("after its context ended it made %d findings, and the last error is %v", n, last)
		}
	})
}

// A list of several pages is too long to search it for each task.
func TestDiagnoseLongLists(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, client := context.Background(), r.Client()
		b := r.Broker()
		keys := b.Keys("q")
		const n = 4500
		made := r.Enqueue(t, "q", n)
		want := []string{}
		_, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i, id := range made {
				switch i % 500 {
				case 100: // no longer in the list
					pipe.LRem(ctx, keys.Pending(), 1, id)
					want = append(want, fmt.Sprintf("orphan-task t:%s %s", id, id))
				case 200: // nor known since when
					pipe.LRem(ctx, keys.Pending(), 1, id)
					pipe.HDel(ctx, keys.Task(id), "pending_since")
					want = append(want, fmt.Sprintf("orphan-task t:%s %s", id, id))
				case 300:
					pipe.LInsertBefore(ctx, keys.Pending(), id, "x"+id)
					want = append(want, fmt.Sprintf("dangling-id pending x%s", id))
				case 400:
					pipe.LPush(ctx, keys.Pending(), id)
					want = append(want, fmt.Sprintf("in-two-collections pending %s", id))
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(want)
		for _, repair := range []bool{false, true} {
			if diff := cmp.Diff(want, diagnose(t, b, doctor.Options{Repair: repair}.WithMaxSearch(1000))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
		if got := diagnose(t, b, doctor.Options{}.WithMaxSearch(1000)); len(got) > 0 {
			t.Errorf("after the repair: %q", got)
		}
		if got := client.LLen(ctx, keys.Pending()).Val(); got != n {
			t.Errorf("%d IDs in pending, want %d", got, n)
		}
	})
}

// With many findings of each kind, pages and batches are full: none is missed.
func TestDiagnoseMany(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, client, b := context.Background(), r.Client(), r.Broker()
		keys := b.Keys("q")
		const n = 1300
		message := redistest.Encode(t, redistest.Message("q", "other"))
		_, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.SAdd(ctx, "asynq:queues", "q")
			for i := range n {
				id := fmt.Sprint("x", i)
				pipe.ZAdd(ctx, keys.Retry(), redis.Z{Score: 1, Member: id})
				pipe.LPush(ctx, keys.Active(), id)
				pipe.ZAdd(ctx, keys.Lease(), redis.Z{Score: 1, Member: id})
				pipe.Set(ctx, keys.Unique("test", []byte(id)), id, 0)
				pipe.HSet(ctx, keys.Task("y"+id), "state", "aggregating", "group", "g", "msg", message)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		r.AllowViolations() // what cannot be read stays in the archive
		for _, repair := range []bool{false, true} {
			got := make(map[string]int)
			for _, line := range diagnose(t, b, doctor.Options{Repair: repair}) {
				kind, _, _ := strings.Cut(line, " ")
				got[kind]++
			}
			want := map[string]int{"dangling-id": 2 * n, "lease-without-active": n, "orphan-lock": n, "unreadable-message": n}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
		if got := diagnose(t, b, doctor.Options{}); len(got) > 0 {
			t.Errorf("after the repair: %d findings, first %q", len(got), got[0])
		}
		if got := client.ZCard(ctx, keys.Archived()).Val(); got != n {
			t.Errorf("%d in the archive, want %d", got, n)
		}
	})
}
