package rdb_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
)

// atOnce lets a group be due with its first task.
var atOnce = rdb.GroupRule{Grace: time.Minute, MaxSize: 1}

// grouped makes a task that waits in a group of queue q.
func grouped(t *testing.T, id, group string) *rdb.NewTask {
	t.Helper()
	m := redistest.Message("q", id)
	m.Group = group
	return &rdb.NewTask{ID: id, Queue: "q", Message: redistest.Encode(t, m), Group: group}
}

func z(member string, score int64) redis.Z { return redis.Z{Member: member, Score: float64(score)} }

// fill makes n tasks in a group; the first one of group g is g1.
func fill(t *testing.T, r *redistest.Redis, group string, n int) {
	t.Helper()
	var tasks []*rdb.NewTask
	for i := range n {
		tasks = append(tasks, grouped(t, fmt.Sprint(group, i+1), group))
	}
	r.Make(t, tasks...)
}

// addedAgo lets the tasks of a group have been added some time ago, and an aggregator look at it.
func addedAgo(t *testing.T, r *redistest.Redis, group string, ago time.Duration, ids ...string) {
	t.Helper()
	ctx, k := context.Background(), r.Broker().Keys("q")
	for _, id := range ids {
		must(t, r.Client().ZAddXX(ctx, k.Group(group), z(id, time.Now().Add(-ago).Unix())))
	}
	must(t, r.Client().ZAdd(ctx, k.GroupsDue(), z(group, 1)))
}

// stage takes what is due into sets, and reads them.
func stage(t *testing.T, b *rdb.Broker, rule rdb.GroupRule) []*rdb.StagedSet {
	t.Helper()
	sets, _, err := b.Stage(context.Background(), "q", rule)
	if err != nil {
		t.Fatal(err)
	}
	b.ReadSets(context.Background(), "q", sets)
	for _, s := range sets {
		if s.Err != nil || len(s.Tasks) != s.Size {
			t.Fatalf("of the %d tasks of %s %d are read, error %v", s.Size, s.Key, len(s.Tasks), s.Err)
		}
	}
	return sets
}

// handOver makes the task with an ID in place of those of a set.
func handOver(t *testing.T, b *rdb.Broker, set *rdb.StagedSet, task *rdb.NewTask) rdb.Code {
	t.Helper()
	item := &rdb.HandOver{Set: set, Task: *task}
	b.HandOver(context.Background(), "q", []*rdb.HandOver{item})
	if item.Err != nil {
		t.Fatal(item.Err)
	}
	return item.Code
}

// callGroups calls every method that calls a script for groups.
func callGroups(t *testing.T, r *redistest.Redis, b *rdb.Broker) {
	t.Helper()
	ctx := context.Background()
	r.Make(t, grouped(t, "g1", "g"), grouped(t, "h1", "h"))
	if err := b.SweepGroups(ctx, "q", atOnce, time.Minute); err != nil {
		t.Error(err)
	}
	sets := stage(t, b, atOnce)
	if len(sets) < 2 {
		t.Fatalf("staged %d sets", len(sets))
	}
	if err := b.ExtendSets(ctx, "q", []string{sets[0].Key, sets[1].Key}); err != nil {
		t.Error(err)
	}
	if err := b.SetAsideStaged(ctx, sets[0], sets[0].Tasks[0].ID); err != nil {
		t.Error(err)
	}
	if code := handOver(t, b, sets[1], redistest.NewTask(t, "q", "sum")); code != rdb.CodeOK {
		t.Errorf("hand over: code %d", code)
	}
	if err := b.Regroup(ctx, "q", sets); err != nil {
		t.Error(err)
	}
	fill(t, r, "large", 501)
	sets = stage(t, b, rdb.GroupRule{Grace: time.Minute, MaxSize: 501})
	if len(sets) != 1 {
		t.Fatalf("staged %d sets", len(sets))
	}
	if code := handOver(t, b, sets[0], redistest.NewTask(t, "q", "large")); code != rdb.CodeOK {
		t.Errorf("hand over: code %d", code)
	}
	purgeSpent(t, b)
}

// purgeSpent deletes all that large sets left.
func purgeSpent(t *testing.T, b *rdb.Broker) {
	t.Helper()
	for more := true; more; {
		var err error
		if more, err = b.PurgeSpent(context.Background(), "q"); err != nil {
			t.Fatal(err)
		}
	}
}

// sizes lists the groups and sizes of sets.
func sizes(sets []*rdb.StagedSet) []string {
	var list []string
	for _, s := range sets {
		list = append(list, fmt.Sprintf("%s %d", s.Group, s.Size))
	}
	slices.Sort(list)
	return list
}

func TestStageWhenDue(t *testing.T) {
	const grace, delay = 20 * time.Second, 90 * time.Second
	for name, tc := range map[string]struct {
		rule  rdb.GroupRule
		added map[string]time.Duration
		want  []string
	}{
		"grace not over":           {rdb.GroupRule{Grace: grace}, map[string]time.Duration{"g1": time.Hour, "g2": grace - time.Second}, nil},
		"grace just over":          {rdb.GroupRule{Grace: grace}, map[string]time.Duration{"g1": time.Hour, "g2": grace + time.Second}, []string{"g 2"}},
		"delay over":               {rdb.GroupRule{Grace: grace, MaxDelay: delay}, map[string]time.Duration{"g1": delay + time.Second, "g2": 0}, []string{"g 2"}},
		"delay not over":           {rdb.GroupRule{Grace: grace, MaxDelay: delay}, map[string]time.Duration{"g1": delay - time.Second, "g2": 0}, nil},
		"not enough":               {rdb.GroupRule{Grace: grace, MaxSize: 4}, map[string]time.Duration{"g1": 0, "g2": 0, "g3": 0}, nil},
		"enough":                   {rdb.GroupRule{Grace: grace, MaxSize: 3}, map[string]time.Duration{"g1": 0, "g2": 0, "g3": 0}, []string{"g 3"}},
		"more than enough":         {rdb.GroupRule{Grace: grace, MaxSize: 2}, map[string]time.Duration{"g1": 0, "g2": 0, "g3": 0}, []string{"g 2"}},
		"several sets and a rest":  {rdb.GroupRule{Grace: grace, MaxSize: 2}, map[string]time.Duration{"g1": time.Hour, "g2": time.Hour, "g3": time.Hour}, []string{"g 1", "g 2"}},
		"a set is full by itself":  {rdb.GroupRule{Grace: grace, MaxSize: 1}, map[string]time.Duration{"g1": 0, "g2": 0, "g3": 0}, []string{"g 1", "g 1", "g 1"}},
		"the rest is young enough": {rdb.GroupRule{Grace: grace, MaxDelay: delay, MaxSize: 1}, map[string]time.Duration{"g1": 2 * delay}, []string{"g 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				fill(t, r, "g", len(tc.added))
				for id, ago := range tc.added {
					addedAgo(t, r, "g", ago, id)
				}
				sets := stage(t, r.Broker(), tc.rule)
				if diff := cmp.Diff(tc.want, sizes(sets)); diff != "" {
					t.Errorf("staged (-want +got):\n%s", diff)
				}
				staged := 0
				for _, s := range sets {
					staged += s.Size
				}
				k := r.Broker().Keys("q")
				if left := r.Client().ZCard(context.Background(), k.Group("g")).Val(); int(left) != len(tc.added)-staged {
					t.Errorf("%d tasks are left in the group, want %d", left, len(tc.added)-staged)
				}
				if again := stage(t, r.Broker(), tc.rule); len(again) > 0 {
					t.Errorf("a second look staged %v", sizes(again))
				}
			})
		})
	}
}

// The oldest tasks come first, and the index says when to look at the rest.
func TestStageOrderAndRest(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		fill(t, r, "g", 5)
		addedAgo(t, r, "g", 10*time.Second, "g4")
		addedAgo(t, r, "g", 5*time.Second, "g2")
		sets, next, err := r.Broker().Stage(context.Background(), "q", rdb.GroupRule{Grace: time.Minute, MaxSize: 2})
		if err != nil || len(sets) != 2 {
			t.Fatalf("staged %d sets, error %v", len(sets), err)
		}
		if next < 55*time.Second || next > 62*time.Second {
			t.Errorf("the rest is due in %v, want 1 m", next)
		}
		r.Broker().ReadSets(context.Background(), "q", sets)
		if got := sets[0].Tasks[0].ID + " " + sets[0].Tasks[1].ID; got != "g4 g2" {
			t.Errorf("the first set has %s", got)
		}
	})
}

// Ten thousand tasks are staged, read and handed over in bounded calls, whether they are in one group or in many.
func TestStageMany(t *testing.T) {
	for name, tc := range map[string]struct {
		groups, size int
		rule         rdb.GroupRule
		calls        int // of stage.lua
	}{
		"many small groups":   {250, 3, rdb.GroupRule{Grace: time.Minute, MaxSize: 3}, 3},
		"one group, one set":  {1, 1750, rdb.GroupRule{Grace: time.Minute, MaxSize: 1750}, 1},
		"one group, any size": {1, 1750, rdb.GroupRule{Grace: time.Second}, 1},
		"one group, sets":     {1, 1750, rdb.GroupRule{Grace: time.Minute, MaxSize: 250}, 3},
		"sets of 700":         {1, 1400, rdb.GroupRule{Grace: time.Minute, MaxSize: 700}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				b, recorded := recordingBroker(t, r)
				for i := range tc.groups {
					group := fmt.Sprintf("group%d-", i)
					fill(t, r, group, tc.size)
					if tc.rule.MaxSize == 0 {
						addedAgo(t, r, group, time.Hour, r.Client().ZRange(context.Background(), b.Keys("q").Group(group), 0, -1).Val()...)
					}
				}
				seen := make(map[string]bool)
				made := 0
				for next := time.Duration(0); next == 0; {
					var sets []*rdb.StagedSet
					var err error
					if sets, next, err = b.Stage(context.Background(), "q", tc.rule); err != nil {
						t.Fatal(err)
					}
					b.ReadSets(context.Background(), "q", sets)
					var items []*rdb.HandOver
					for _, s := range sets {
						for _, task := range s.Tasks {
							if seen[task.ID] || task.Message == nil {
								t.Fatalf("task %q twice, or without a message", task.ID)
							}
							seen[task.ID] = true
						}
						made++
						items = append(items, &rdb.HandOver{Set: s, Task: *redistest.NewTask(t, "q", fmt.Sprint("sum", made))})
					}
					b.HandOver(context.Background(), "q", items)
					for _, item := range items {
						if item.Err != nil || item.Code != rdb.CodeOK {
							t.Fatalf("code %d, error %v", item.Code, item.Err)
						}
					}
				}
				purgeSpent(t, b)
				if want := tc.groups * tc.size; len(seen) != want {
					t.Errorf("%d tasks were staged, want %d", len(seen), want)
				}
				if n := len(recorded.calls["stage"]); n > tc.calls+1 {
					t.Errorf("%d calls of stage.lua, want %d", n, tc.calls)
				}
				for _, key := range r.Client().Keys(context.Background(), "asynq:{q}:*").Val() {
					if strings.Contains(key, ":g:") || strings.Contains(key, ":t:group") {
						t.Errorf("%s is left", key)
					}
				}
			})
		})
	}
}

// Handing over deletes the members with their locks and makes the new task in one transition.
func TestHandOver(t *testing.T) {
	for name, tc := range map[string]struct {
		task func(*rdb.NewTask)
		want string
	}{
		"pending":                   {func(*rdb.NewTask) {}, "asynq:{q}:pending"},
		"later":                     {func(n *rdb.NewTask) { n.ProcessAt = time.Now().Add(time.Hour).Unix() }, "asynq:{q}:scheduled"},
		"grouped":                   {func(n *rdb.NewTask) { n.Group = "second" }, "asynq:{q}:g:second"},
		"unique":                    {func(n *rdb.NewTask) { lock(n, "fresh") }, "asynq:{q}:pending"},
		"with the lock of a member": {func(n *rdb.NewTask) { lock(n, "a") }, "asynq:{q}:pending"},
	} {
		t.Run(name, func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				ctx := context.Background()
				r.Make(t, lock(grouped(t, "a", "g"), "a"), grouped(t, "b", "g"))
				sets := stage(t, r.Broker(), rdb.GroupRule{Grace: time.Minute, MaxSize: 2})
				task := redistest.NewTask(t, "q", "sum")
				tc.task(task)
				if code := handOver(t, r.Broker(), sets[0], task); code != rdb.CodeOK {
					t.Fatalf("code %d", code)
				}
				if code := handOver(t, r.Broker(), sets[0], task); code != rdb.CodeLost {
					t.Errorf("again: code %d, want LOST", code)
				}
				if n := r.Client().Exists(ctx, tc.want).Val(); n != 1 {
					t.Errorf("%s does not exist", tc.want)
				}
				if n := r.Client().Exists(ctx, "asynq:{q}:t:a", "asynq:{q}:t:b", sets[0].Key, "asynq:{q}:aggregation_sets").Val(); n != 0 {
					t.Errorf("%d keys of the set are left", n)
				}
				if holder := r.Client().Get(ctx, "asynq:{q}:unique:test:a").Val(); holder != "" && task.Lock == "" {
					t.Errorf("the lock of a member is held by %q", holder)
				}
				if task.Lock != "" && r.Client().Get(ctx, task.Lock).Val() != "sum" {
					t.Error("the new task does not hold its lock")
				}
			})
		})
	}
}

// A task that is refused leaves its set as it is, and others that are handed over with it alone.
func TestHandOverRefused(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.Make(t, lock(redistest.NewTask(t, "q", "taken"), "held"))
		r.Make(t, grouped(t, "a", "ga"), grouped(t, "b", "gb"), grouped(t, "c", "gc"), grouped(t, "d", "gd"))
		must(t, r.Client().Set(context.Background(), "asynq:{q}:g:wrong", "no set", 0))
		sets := stage(t, r.Broker(), atOnce)
		task := func(id string, change func(*rdb.NewTask)) rdb.NewTask {
			n := redistest.NewTask(t, "q", id)
			change(n)
			return *n
		}
		items := []*rdb.HandOver{
			{Set: sets[0], Task: task("taken", func(*rdb.NewTask) {})},
			{Set: sets[1], Task: task("second", func(n *rdb.NewTask) { lock(n, "held") })},
			{Set: sets[2], Task: task("third", func(n *rdb.NewTask) { n.Group = "wrong" })},
			{Set: sets[3], Task: task("fourth", func(*rdb.NewTask) {})},
		}
		r.Broker().HandOver(context.Background(), "q", items)
		if items[0].Code != rdb.CodeConflict || items[1].Code != rdb.CodeDuplicate || items[2].Err == nil || items[3].Code != rdb.CodeOK {
			t.Errorf("codes %d, %d, error %v, code %d", items[0].Code, items[1].Code, items[2].Err, items[3].Code)
		}
		must(t, r.Client().Del(context.Background(), "asynq:{q}:g:wrong"))
		if err := r.Broker().Regroup(context.Background(), "q", sets); err != nil {
			t.Error(err)
		}
		if again := stage(t, r.Broker(), atOnce); len(again) != 3 {
			t.Errorf("staged again: %v, want the three refused", sizes(again))
		}
	})
}

// Sets whose holder is gone go back, with their times; sets in time and extended ones stay. Who lost a set hands nothing over.
func TestRegroup(t *testing.T) {
	for _, size := range []int{2, 1200} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				ctx, b, k := context.Background(), r.Broker(), r.Broker().Keys("q")
				fill(t, r, "g", size)
				addedAgo(t, r, "g", time.Hour, "g1")
				sets := stage(t, b, rdb.GroupRule{Grace: time.Minute, MaxSize: size})
				if more, err := b.RegroupStale(ctx, "q"); more || err != nil || r.Client().Exists(ctx, k.Group("g")).Val() != 0 {
					t.Errorf("a set in time was touched; more: %t, error %v", more, err)
				}
				must(t, r.Client().ZAdd(ctx, k.AggregationSets(), z(sets[0].Key, time.Now().Add(-time.Second).Unix())))
				calls := 0
				for more := true; more; calls++ {
					var err error
					if more, err = b.RegroupStale(ctx, "q"); err != nil {
						t.Fatal(err)
					}
					if code := handOver(t, b, sets[0], redistest.NewTask(t, "q", "late")); code != rdb.CodeLost {
						t.Errorf("its holder handed over after call %d: code %d", calls, code)
					}
				}
				if want := (size + 499) / 500; calls != want {
					t.Errorf("%d calls, want %d", calls, want)
				}
				if n := r.Client().ZCard(ctx, k.Group("g")).Val(); int(n) != size {
					t.Errorf("%d tasks are in the group, want %d", n, size)
				}
				if score := r.Client().ZScore(ctx, k.Group("g"), "g1").Val(); time.Since(time.Unix(int64(score), 0)) < 30*time.Minute {
					t.Error("it does not know any more when it was added")
				}
				if r.Client().Exists(ctx, k.AggregationSets()).Val() != 0 {
					t.Error("the set is still known")
				}
				if again := stage(t, b, rdb.GroupRule{Grace: time.Minute, MaxSize: size}); len(again) != 1 {
					t.Errorf("staged again: %v", sizes(again))
				}
			})
		})
	}
}

// What other libraries' processes put into groups is found, and what servers with other settings put off.
func TestSweepGroups(t *testing.T) {
	for name, tc := range map[string]struct {
		rule rdb.GroupRule
		look time.Duration // what the index says; 0: nothing
		want bool
	}{
		"unknown":                  {rdb.GroupRule{Grace: 10 * time.Second}, 0, true},
		"known":                    {rdb.GroupRule{Grace: 10 * time.Second}, 5 * time.Second, false},
		"put off beyond the grace": {rdb.GroupRule{Grace: 10 * time.Second}, time.Minute, true},
		"put off beyond the delay": {rdb.GroupRule{Grace: 90 * time.Second, MaxDelay: 30 * time.Second}, time.Minute, true},
		"full":                     {rdb.GroupRule{Grace: 90 * time.Second, MaxSize: 2}, time.Minute, true},
		"not full":                 {rdb.GroupRule{Grace: 90 * time.Second, MaxSize: 3}, time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				ctx, k := context.Background(), r.Broker().Keys("q")
				fill(t, r, "g", 2)
				must(t, r.Client().Del(ctx, k.GroupsDue()))
				if tc.look > 0 {
					must(t, r.Client().ZAdd(ctx, k.GroupsDue(), z("g", time.Now().Add(tc.look).Unix())))
					must(t, r.Client().Expire(ctx, k.GroupsDue(), time.Hour))
				}
				if err := r.Broker().SweepGroups(ctx, "q", tc.rule, time.Minute); err != nil {
					t.Fatal(err)
				}
				score, err := r.Client().ZScore(ctx, k.GroupsDue(), "g").Result()
				if got := err == nil && score <= float64(time.Now().Unix()); got != tc.want {
					t.Errorf("looked at soon: %t, want %t (score %v)", got, tc.want, score)
				}
				must(t, r.Client().Del(ctx, k.GroupsDue()))
				if err := r.Broker().SweepGroups(ctx, "q", tc.rule, time.Minute); err != nil {
					t.Fatal(err)
				}
				if r.Client().Exists(ctx, k.GroupsDue()).Val() != 0 {
					t.Error("a second sweep within the interval")
				}
			})
		})
	}
}
