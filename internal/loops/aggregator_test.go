package loops

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/wire"
)

// gathering is an Aggregator on a Redis with groups. It combines the n-th set to a task sum-<n>.
type gathering struct {
	*redistest.Redis
	*Aggregator
	t      *testing.T
	ctx    context.Context
	broker *rdb.Broker
	log    *logbook

	combine func(group string, tasks []*wire.TaskMessage) error // called before a task is made
	made    []string
}

func gather(t *testing.T, r *redistest.Redis, rule rdb.GroupRule, queues ...string) *gathering {
	g := &gathering{Redis: r, t: t, ctx: context.Background(), broker: r.Broker(), log: &logbook{}}
	g.combine = func(string, []*wire.TaskMessage) error { return nil }
	var list []GroupQueue
	for _, name := range queues {
		list = append(list, GroupQueue{Name: name, Rule: rule, Combine: func(group string, tasks []*wire.TaskMessage) (rdb.NewTask, error) {
			if err := g.combine(group, tasks); err != nil {
				return rdb.NewTask{}, err
			}
			g.made = append(g.made, fmt.Sprint(group, ":", len(tasks)))
			return *redistest.NewTask(t, name, fmt.Sprint("sum-", len(g.made))), nil
		}})
	}
	g.Aggregator = NewAggregator(g.broker, list, g.log.logger())
	return g
}

// fill adds n tasks to a group of a queue.
func (g *gathering) fill(queue, group string, n int) {
	g.t.Helper()
	tasks := make([]*rdb.NewTask, n)
	for i := range tasks {
		m := redistest.Message(queue, fmt.Sprintf("%s-%d", group, i))
		m.Group = group
		tasks[i] = &rdb.NewTask{ID: m.ID, Queue: queue, Message: redistest.Encode(g.t, m), Group: group}
	}
	g.Make(g.t, tasks...)
}

func (g *gathering) tick() time.Duration {
	g.t.Helper()
	rest, err := g.Tick(g.ctx)
	if err != nil {
		g.t.Fatal(err)
	}
	return rest
}

func (g *gathering) mustHaveMade(want ...string) {
	g.t.Helper()
	slices.Sort(g.made)
	if diff := cmp.Diff(want, g.made); diff != "" {
		g.t.Errorf("made (-want +got):\n%s", diff)
	}
}

// pending returns the IDs in pending of a queue.
func (g *gathering) pending(queue string) []string {
	ids := g.Client().LRange(g.ctx, g.broker.Keys(queue).Pending(), 0, -1).Val()
	slices.Sort(ids)
	return ids
}

// abandon lets the deadlines of all sets of queue q pass.
func (g *gathering) abandon() {
	key := g.broker.Keys("q").AggregationSets()
	for _, set := range g.Client().ZRange(g.ctx, key, 0, -1).Val() {
		g.Client().ZAdd(g.ctx, key, redis.Z{Member: set, Score: 1})
	}
}

var pairs = rdb.GroupRule{Grace: time.Minute, MaxSize: 2}

func TestAggregatorAggregates(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		g := gather(t, r, pairs, "q", "r")
		if rest := g.tick(); rest != aggregateEvery {
			t.Errorf("without groups, the delay is %v", rest)
		}
		g.fill("q", "a", 5)
		g.fill("q", "b", 2)
		g.fill("q", "c", 1)
		g.fill("r", "d", 4)
		g.combine = func(group string, tasks []*wire.TaskMessage) error {
			if tasks[0].ID > tasks[1].ID || tasks[0].Group != group {
				t.Errorf("tasks of group %s are %s, %s", group, tasks[0].ID, tasks[1].ID)
			}
			return nil
		}
		g.tick()
		g.mustHaveMade("a:2", "a:2", "b:2", "d:2", "d:2")
		if n := len(g.pending("q")) + len(g.pending("r")); n != 5 {
			t.Errorf("%d tasks are pending, want 5", n)
		}
		if rest := g.tick(); rest != aggregateEvery {
			t.Errorf("delay %v", rest)
		}
		g.mustHaveMade("a:2", "a:2", "b:2", "d:2", "d:2")
	})
}

// A group whose aggregation fails does not block others, and is retried after two minutes.
func TestAggregatorWithFailingUserCode(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		g := gather(t, r, pairs, "q")
		g.fill("q", "bad", 2)
		g.fill("q", "good", 2)
		g.combine = func(group string, _ []*wire.TaskMessage) error {
			if group == "bad" {
				return errors.New("no sum of these")
			}
			return nil
		}
		g.tick()
		g.mustHaveMade("good:2")
		g.log.mustHave(t, 1, "level=ERROR", "group=bad", "no sum of these")
		g.tick()
		g.log.mustHave(t, 1, "level=ERROR")
		if rest, err := g.Maintain(g.ctx); rest != maintainEvery || err != nil {
			t.Errorf("delay %v, error %v", rest, err)
		}
		if n := g.Client().Exists(g.ctx, g.broker.Keys("q").Group("bad")).Val(); n != 0 {
			t.Error("the tasks returned too early")
		}
		g.abandon()
		if _, err := g.Maintain(g.ctx); err != nil {
			t.Error(err)
		}
		g.combine = func(string, []*wire.TaskMessage) error { return nil }
		g.tick()
		g.mustHaveMade("bad:2", "good:2")
	})
}

// Unreadable tasks are archived, and IDs without a task are removed. The others are aggregated.
func TestAggregatorWithUnreadableTasks(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		g := gather(t, r, rdb.GroupRule{Grace: time.Minute, MaxSize: 3}, "q")
		g.fill("q", "some", 3)
		g.fill("q", "none", 3)
		k := g.broker.Keys("q")
		break1 := func(id string) { g.Client().HSet(g.ctx, k.Task(id), wire.FieldMessage, "no message") }
		break1("some-0")
		g.Client().Del(g.ctx, k.Task("some-1"))
		break1("none-0")
		break1("none-1")
		g.Client().Del(g.ctx, k.Task("none-2"))
		var reported []string
		g.Archived = func(_ context.Context, queue string, msg *wire.TaskMessage, err error) {
			reported = append(reported, msg.ID)
			if queue != "q" || msg.Queue != "q" || err == nil {
				t.Errorf("reported %+v of %q, error %v", msg, queue, err)
			}
		}
		g.tick()
		g.mustHaveMade("some:1")
		g.log.mustHave(t, 5, "level=ERROR", "unreadable")
		archived := g.Client().ZRange(g.ctx, k.Archived(), 0, -1).Val()
		slices.Sort(archived)
		if diff := cmp.Diff([]string{"none-0", "none-1", "some-0"}, archived); diff != "" {
			t.Errorf("archived (-want +got):\n%s", diff)
		}
		if slices.Sort(reported); !slices.Equal(reported, archived) {
			t.Errorf("reported %q", reported)
		}
		if n := g.Client().Exists(g.ctx, k.AggregationSets()).Val(); n != 0 {
			t.Error("a set is left")
		}
		for _, id := range archived { // the invariant check would report the unreadable tasks
			g.Client().ZRem(g.ctx, k.Archived(), id)
			g.Client().Del(g.ctx, k.Task(id))
		}
	})
}

func TestAggregatorWithABrokenQueue(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.AllowViolations()
		g := gather(t, r, pairs, "broken", "q")
		g.Client().Set(g.ctx, g.broker.Keys("broken").Groups(), "no set", 0)
		g.fill("q", "a", 2)
		g.Client().Set(g.ctx, g.broker.Keys("q").Group("wrong"), "no group", 0)
		g.Client().ZAdd(g.ctx, g.broker.Keys("q").GroupsDue(), redis.Z{Member: "wrong", Score: 1})
		g.tick()
		g.tick()
		g.mustHaveMade("a:2")
		g.log.mustHave(t, 1, "level=ERROR", "aggregation failed for some queues")
		if _, err := gather(t, r, pairs, "broken").Tick(g.ctx); err == nil {
			t.Error("no error although all queues are broken")
		}
	})
}

// A set in work when the server stops is committed; the others return to their groups at once.
func TestAggregatorStops(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		g := gather(t, r, pairs, "q")
		for _, group := range []string{"a", "b", "c"} {
			g.fill("q", group, 2)
		}
		ctx, cancel := context.WithCancel(g.ctx)
		g.combine = func(string, []*wire.TaskMessage) error {
			cancel()
			return nil
		}
		if _, err := g.Tick(ctx); err != nil {
			t.Error(err)
		}
		if len(g.made) != 1 || len(g.pending("q")) != 1 {
			t.Errorf("made %v, pending %v", g.made, g.pending("q"))
		}
		if n := g.Client().SCard(g.ctx, g.broker.Keys("q").Groups()).Val(); n != 2 {
			t.Errorf("%d groups have their tasks back, want 2", n)
		}
	})
}

// Slow user code does not lose its set to another server.
func TestAggregatorExtendsItsSets(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		g := gather(t, r, pairs, "q")
		g.fill("q", "a", 2)
		other := gather(t, r, pairs, "q")
		g.combine = func(string, []*wire.TaskMessage) error {
			g.abandon()
			for _, a := range []*gathering{g, other} {
				if _, err := a.Maintain(g.ctx); err != nil {
					t.Error(err)
				}
				if rest := other.tick(); rest != aggregateEvery {
					t.Errorf("delay %v", rest)
				}
			}
			return nil
		}
		g.tick()
		g.mustHaveMade("a:2")
		other.mustHaveMade()
		if got := g.pending("q"); len(got) != 1 {
			t.Errorf("pending %v", got)
		}
	})
}

// A set that another server took over is not committed.
func TestAggregatorWithLostSet(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		g, other := gather(t, r, pairs, "q"), gather(t, r, pairs, "q")
		g.fill("q", "a", 2)
		g.combine = func(string, []*wire.TaskMessage) error {
			g.abandon()
			if _, err := other.Maintain(g.ctx); err != nil {
				t.Error(err)
			}
			other.tick()
			return nil
		}
		g.tick()
		other.mustHaveMade("a:2")
		if got := g.pending("q"); len(got) != 1 {
			t.Errorf("pending %v", got)
		}
		g.log.mustHave(t, 1, "level=WARN", "group=a")
	})
}

// countingBroker counts round trips.
type countingBroker struct {
	*rdb.Broker
	calls int
}

func (b *countingBroker) Stage(ctx context.Context, queue string, rule rdb.GroupRule) ([]*rdb.StagedSet, time.Duration, error) {
	b.calls++
	return b.Broker.Stage(ctx, queue, rule)
}

// slowBroker always has another due group, and is slow.
type slowBroker struct{ AggregateBroker }

func (slowBroker) Filled(_ context.Context, queues []string, _ ...func(wire.Queue) string) ([]string, error) {
	return queues, nil
}

func (slowBroker) SweepGroups(context.Context, string, rdb.GroupRule, time.Duration) error {
	return nil
}

func (slowBroker) Stage(context.Context, string, rdb.GroupRule) ([]*rdb.StagedSet, time.Duration, error) {
	time.Sleep(100 * time.Millisecond)
	return nil, 0, nil
}

// With any number of due groups, a tick ends, so that other queues are next, and the next one
// follows without a delay.
func TestAggregatorTickIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewAggregator(slowBroker{}, []GroupQueue{{Name: "q", Rule: pairs}}, slog.New(slog.DiscardHandler))
		start := time.Now()
		mustTick(t, a.Tick, 0)
		if took := time.Since(start); took != maxAggregateTime {
			t.Errorf("a tick took %v", took)
		}
	})
}

// Ten thousand groups of three tasks cost a hundred calls.
func TestAggregatorWithManyGroups(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		groups := 10_000
		if r.IsMini() {
			groups = 1000 // far slower
		}
		var mu sync.Mutex
		made := 0
		b := &countingBroker{Broker: r.Broker()}
		a := NewAggregator(b, []GroupQueue{{
			Name: "q", Rule: rdb.GroupRule{Grace: time.Minute, MaxSize: 3},
			Combine: func(_ string, tasks []*wire.TaskMessage) (rdb.NewTask, error) {
				mu.Lock()
				defer mu.Unlock()
				made++
				if len(tasks) != 3 {
					t.Errorf("a group has %d tasks", len(tasks))
				}
				return *redistest.NewTask(t, "q", fmt.Sprint("sum-", made)), nil
			},
		}}, slog.New(slog.DiscardHandler))
		tasks := make([]*rdb.NewTask, 0, 3*groups)
		for i := range 3 * groups {
			m := redistest.Message("q", fmt.Sprint("t", i))
			m.Group = fmt.Sprint("g", i%groups)
			tasks = append(tasks, &rdb.NewTask{ID: m.ID, Queue: "q", Message: redistest.Encode(t, m), Group: m.Group})
		}
		r.Make(t, tasks...)
		var longest time.Duration
		for ticks := 0; made < groups && ticks < groups; ticks++ {
			start := time.Now()
			if _, err := a.Tick(context.Background()); err != nil {
				t.Fatal(err)
			}
			longest = max(longest, time.Since(start))
		}
		t.Logf("%d calls of stage.lua; the longest tick took %v", b.calls, longest)
		if made != groups || b.calls > groups/100+10 {
			t.Errorf("%d groups were aggregated with %d calls of stage.lua", made, b.calls)
		}
	})
}
