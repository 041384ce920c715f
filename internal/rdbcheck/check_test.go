package rdbcheck_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/rdbcheck"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/wire"
)

func TestCheckFindsNothingInSoundData(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, client := context.Background(), r.Client()
		redistest.SeedStates(t, r)
		keys := r.Broker().Keys("q")
		set := keys.AggregationSet("a:b", "b6b0e4c4")
		redistest.Must(t, client.HSet(ctx, keys.Task("t9"), "state", "aggregating", "group", "a:b",
			"msg", redistest.Encode(t, redistest.Message("q", "t9"))))
		redistest.Must(t, client.ZAdd(ctx, set, redis.Z{Score: 1, Member: "t9"}))
		redistest.Must(t, client.ZAdd(ctx, keys.AggregationSets(), redis.Z{Score: 1, Member: set}))
		redistest.Must(t, client.Set(ctx, keys.Paused(), 1, 0))
		redistest.Must(t, client.LPush(ctx, keys.Unblock("x"), 1))
		redistest.Must(t, client.Expire(ctx, keys.Unblock("x"), time.Minute))
		redistest.Must(t, client.Set(ctx, "asynq:foo:{q}:bar", "of another namespace", 0))
		r.Check(t)
	})
}

func TestCheck(t *testing.T) {
	const p = "asynq:{q}:"
	text := redistest.Encode(t, redistest.Message("q", "t1"))
	foreign := redistest.Encode(t, redistest.Message("r", "t1"))
	type plant func(ctx context.Context, c redis.UniversalClient) redis.Cmder
	do := func(args ...any) plant {
		return func(ctx context.Context, c redis.UniversalClient) redis.Cmder { return c.Do(ctx, args...) }
	}
	tests := []struct {
		name  string
		plant []plant
		want  []string // each violation's line
	}{
		{"twice in a list", []plant{do("lpush", p+"pending", "t1")},
			[]string{p + `t:t1: task "t1": it is in the collections of its state 2 times`}},
		{"in a foreign collection", []plant{do("zadd", p+"retry", 1, "t1")},
			[]string{p + `retry: task "t1": it holds the ID of a task whose state is "pending"`}},
		{"in none", []plant{do("zrem", p+"archived", "t5")},
			[]string{p + `t:t5: task "t5": its state is "archived" and it is in no such collection`}},
		{"in the wrong one", []plant{do("hset", p+"t:t3", "state", "retry")}, []string{
			p + `scheduled: task "t3": it holds the ID of a task whose state is "retry"`,
			p + `t:t3: task "t3": its state is "retry" and it is in no such collection`}},
		{"in a group and an aggregation set", []plant{
			do("zadd", p+"g:g:1", 1, "t7"), do("zadd", p+"aggregation_sets", 1, p+"g:g:1")},
			[]string{p + `t:t7: task "t7": it is in the collections of its state 2 times`}},
		{"in another group", []plant{do("hset", p+"t:t7", "group", "h")},
			[]string{p + `g:g: task "t7": it holds the ID of a task whose group is "h"`}},
		{"no state", []plant{do("hset", p+"t:t6", "state", "finished")},
			[]string{p + `t:t6: task "t6": its state "finished" is none that a task can have`}},
		{"no task", []plant{do("del", p+"t:t4")}, []string{p + `retry: task "t4": no such task exists`}},
		{"no active task", []plant{do("del", p+"t:t2")}, []string{
			p + `active: task "t2": no such task exists`, p + `lease: task "t2": no such task exists`}},
		{"no lease", []plant{do("del", p+"lease")}, []string{p + `lease: task "t2": it is active and has no lease`}},
		{"lease of an idle task", []plant{do("zadd", p+"lease", 1, "t1")},
			[]string{p + `lease: task "t1": it has a lease and its state is "pending"`}},
		{"no pending_since", []plant{do("hdel", p+"t:t1", "pending_since")},
			[]string{p + `t:t1: task "t1": it is pending and has no pending_since`}},
		{"pending_since of an active task", []plant{do("hset", p+"t:t2", "pending_since", "1")},
			[]string{p + `t:t2: task "t2": it has pending_since and its state is "active"`}},
		{"pending_since without its digits", []plant{do("hset", p+"t:t1", "pending_since", "1.7e+18")},
			[]string{p + `t:t1: task "t1": its pending_since "1.7e+18" is not an integer`}},
		{"lock of no task", []plant{do("set", p+"unique:test:1", "gone")},
			[]string{p + `unique:test:1: task "gone": it holds a lock and does not exist`}},
		{"lock that its task does not know", []plant{do("set", p+"unique:test:1", "t8")}, []string{p +
			`unique:test:1: task "t8": it holds a lock that is not its unique_key, which is ` +
			`"asynq:{q}:unique:test:c9f0f895fb98ab9159f51fd0297e236d"`}},
		{"unique_key that is no lock", []plant{do("hset", p+"t:t1", "unique_key", "asynq:{r}:unique:test:1")},
			[]string{p + `t:t1: task "t1": its unique_key "asynq:{r}:unique:test:1" is not the key of a lock of its queue`}},
		{"no message", []plant{do("hdel", p+"t:t1", "msg")}, []string{p + `t:t1: task "t1": it has no message`}},
		{"malformed message", []plant{do("hset", p+"t:t1", "msg", "\x0a\xff")},
			[]string{p + `t:t1: task "t1": its message is malformed: `}},
		{"message of another task", []plant{do("hset", p+"t:t2", "msg", text)},
			[]string{p + `t:t2: task "t2": its message is that of task "t1"`}},
		{"message of another queue", []plant{do("hset", p+"t:t1", "msg", foreign)},
			[]string{p + `t:t1: task "t1": its message is of queue "r"`}},
		{"fraction in scheduled", []plant{do("zadd", p+"scheduled", "1.0005", "t3")},
			[]string{p + `scheduled: task "t3": its score 1.0005 is not a whole number of milliseconds`}},
		{"fraction in retry", []plant{do("zadd", p+"retry", "1.0005", "t4")}, []string{p + `retry: task "t4": its score 1.0005 is`}},
		{"milliseconds", []plant{do("zadd", p+"scheduled", "1800000000.123", "t3"), do("zadd", p+"retry", "1800000000.999", "t4")}, nil},
		{"fraction in archived", []plant{do("zadd", p+"archived", "1.5", "t5")}, []string{p + `archived: task "t5": its score 1.5 is`}},
		{"infinity in completed", []plant{do("zadd", p+"completed", "+inf", "t6")},
			[]string{p + `completed: task "t6": its score +Inf is`}},
		{"fraction in lease", []plant{do("zadd", p+"lease", "1.5", "t2")}, []string{p + `lease: task "t2": its score 1.5 is`}},
		{"group without tasks", []plant{do("sadd", p+"groups", "h")}, []string{p + `groups: group "h" has no tasks`}},
		{"group without a name", []plant{do("del", p+"groups")},
			[]string{p + `g:g: the set of groups does not contain this group, and it is not a known aggregation set`}},
		{"eternal marker", []plant{do("persist", p+"marker")}, []string{p + `marker: it has no TTL`}},
		{"unblock key without TTL", []plant{do("lpush", p+"unblock:x", 1)}, []string{p + `unblock:x: it has no TTL`}},
		{"eternal answer", []plant{do("set", p+"answer:x", "1:0")}, []string{p + `answer:x: it has no TTL`}},
		{"eternal tick", []plant{do("set", p+"tick:x", "1:0:1")}, []string{p + `tick:x: it has no TTL`}},
		{"eternal counter", []plant{do("set", p+"failed:2024-02-29", 1)}, []string{p + `failed:2024-02-29: it has no TTL`}},
		{"counter of no day", []plant{do("set", p+"failed:2023-02-29", 1, "ex", 60)},
			[]string{p + `failed:2023-02-29: no key of a queue has this name`}},
		{"counter of words", []plant{do("set", p+"processed", "many")}, []string{p + `processed: "many" is not an integer`}},
		{"unknown key", []plant{do("set", p+"penning", 1)}, []string{p + `penning: no key of a queue has this name`}},
		{"unknown queue", []plant{do("set", "asynq:{new}:other", 1)}, []string{`asynq:{new}:other: no key of a queue has this name`}},
		{"wrong type of a task", []plant{do("set", p+"t:t9", 1)}, []string{p + `t:t9: task "t9": the task cannot be read: WRONGTYPE`}},
		{"wrong type of a list", []plant{do("del", p+"pending"), do("zadd", p+"pending", 1, "t1")}, []string{
			p + `pending: its type is zset and must be list`,
			p + `t:t1: task "t1": its state is "pending" and it is in no such collection`,
			p + `t:t8: task "t8": its state is "pending" and it is in no such collection`}},
		{"wrong type of a group", []plant{do("set", p+"g:g", 1)}, []string{
			p + `g:g: its type is string and must be zset`,
			p + `t:t7: task "t7": its state is "aggregating" and it is in no such collection`}},
		{"wrong type of a set", []plant{do("del", p+"groups"), do("set", p+"groups", 1)}, []string{
			p + `g:g: the set of groups does not contain this group`, p + `groups: its type is string and must be set`}},
		{"wrong type of a lock", []plant{do("lpush", p+"unique:test:1", 1)},
			[]string{p + `unique:test:1: its type is list and must be string`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				ctx := context.Background()
				r.AllowViolations()
				redistest.SeedStates(t, r)
				r.Check(t) // nothing before it is planted
				for _, plant := range tt.plant {
					redistest.Must(t, plant(ctx, r.Client()))
				}
				found, err := rdbcheck.Check(ctx, r.Client(), "")
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for i, v := range found {
					line := v.String()
					if i < len(tt.want) && strings.HasPrefix(line, tt.want[i]) {
						line = tt.want[i] // the rest is the text of the server or the decoder
					}
					got = append(got, line)
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestCheckPages(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.AllowViolations()
		ctx, keys := context.Background(), r.Broker().Keys("q")
		const n = 2100 // two pages and a part of one
		ids := r.Enqueue(t, "q", n)
		_, err := r.Client().Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i, id := range ids {
				pipe.ZAdd(ctx, keys.Lease(), redis.Z{Score: float64(i), Member: id})
				pipe.Set(ctx, keys.Unique("test", []byte(id)), fmt.Sprintf("gone%d", i), 0)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		found, err := rdbcheck.Check(ctx, r.Client(), "")
		if err != nil {
			t.Fatal(err)
		}
		leases, locks := 0, 0
		for _, v := range found {
			switch {
			case v.Key == keys.Lease() && v.Queue == "q" && strings.HasPrefix(v.Text, "it has a lease"):
				leases++
			case strings.HasPrefix(v.ID, "gone"):
				locks++
			default:
				t.Errorf("unexpected: %v", v)
			}
		}
		if leases != n || locks != n {
			t.Errorf("found %d leases and %d locks, want %d of each", leases, locks, n)
		}
	})
}

func TestCheckOfAnotherNamespace(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.AllowViolations()
		ctx := context.Background()
		const ns = wire.Namespace("a[b]*?")
		redistest.Must(t, r.Client().Set(ctx, ns.Queue("q").Task("x"), 1, 0))
		redistest.Must(t, r.Client().Set(ctx, "abcd:{q}:t:x", "matched by the namespace as a pattern", 0))
		found, err := rdbcheck.Check(ctx, r.Client(), ns)
		if err != nil || len(found) != 1 || found[0].Key != "a[b]*?:{q}:t:x" {
			t.Errorf("found %v, error %v; want one violation", found, err)
		}
		found, err = rdbcheck.Check(ctx, r.Client(), "")
		if err != nil || len(found) != 0 {
			t.Errorf("found %v in the default namespace, error %v", found, err)
		}
	})
}

func TestCheckTellsThatRedisIsGone(t *testing.T) {
	r := redistest.Mini(t)
	r.AllowViolations()
	redistest.Must(t, r.Client().Ping(context.Background()))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if found, err := rdbcheck.Check(ctx, r.Client(), ""); err == nil || found != nil {
		t.Errorf("found %v, error %v; want an error", found, err)
	}
}
