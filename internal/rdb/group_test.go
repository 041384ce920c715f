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
	"github.com/asynq-go/asynq/internal/script"
)

// atOnce makes a group due with its first task.
var atOnce = rdb.GroupRule{Grace: time.Minute, MaxSize: 1}

// grouped creates a task in a group of queue q.
func grouped(t *testing.T, id, group string) *rdb.NewTask {
	t.Helper()
	m := redistest.Message("q", id)
	m.Group = group
	return &rdb.NewTask{ID: id, Queue: "q", Message: redistest.Encode(t, m), Group: group}
}

func z(member string, score int64) redis.Z { return redis.Z{Member: member, Score: float64(score)} }

// fill creates n tasks in a group; the first one of group g is g1.
func fill(t *testing.T, r *redistest.Redis, group string, n int) {
	t.Helper()
	var tasks []*rdb.NewTask
	for i := range n {
		tasks = append(tasks, grouped(t, fmt.Sprint(group, i+1), group))
	}
	r.Make(t, tasks...)
}

// addedAgo backdates tasks of a group and makes the group due.
func addedAgo(t *testing.T, r *redistest.Redis, group string, ago time.Duration, ids ...string) {
	t.Helper()
	ctx, k := context.Background(), r.Broker().Keys("q")
	for _, id := range ids {
		redistest.Must(t, r.Client().ZAddXX(ctx, k.Group(group), z(id, time.Now().Add(-ago).Unix())))
	}
	redistest.Must(t, r.Client().ZAdd(ctx, k.GroupsDue(), z(group, 1)))
}

// stage moves the tasks of due groups to aggregation sets and reads the sets.
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

// commit replaces the tasks of a set by one task.
func commit(t *testing.T, b *rdb.Broker, set *rdb.StagedSet, task *rdb.NewTask) script.Code {
	t.Helper()
	item := &rdb.Aggregation{Set: set, Task: *task}
	b.CommitAggregations(context.Background(), "q", []*rdb.Aggregation{item})
	if item.Err != nil {
		t.Fatal(item.Err)
	}
	return item.Code
}

// purgeSpent deletes all remains of large consumed sets.
func purgeSpent(t *testing.T, b *rdb.Broker) {
	t.Helper()
	for more := true; more; {
		var err error
		if more, err = b.PurgeConsumed(context.Background(), "q"); err != nil {
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

// The oldest tasks are staged first, and the index holds the time of the next check.
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

// Stage, ReadSets and CommitAggregations process ten thousand tasks in bounded calls, in one group
// or in many.
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
				b, recorded := redistest.RecordingBroker(t, r)
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
					var items []*rdb.Aggregation
					for _, s := range sets {
						for _, task := range s.Tasks {
							if seen[task.ID] || task.Message == nil {
								t.Fatalf("task %q twice, or without a message", task.ID)
							}
							seen[task.ID] = true
						}
						made++
						items = append(items, &rdb.Aggregation{Set: s, Task: *redistest.NewTask(t, "q", fmt.Sprint("sum", made))})
					}
					b.CommitAggregations(context.Background(), "q", items)
					for _, item := range items {
						if item.Err != nil || item.Code != script.CodeOK {
							t.Fatalf("code %d, error %v", item.Code, item.Err)
						}
					}
				}
				purgeSpent(t, b)
				if want := tc.groups * tc.size; len(seen) != want {
					t.Errorf("%d tasks were staged, want %d", len(seen), want)
				}
				if n := len(recorded.Calls["stage"]); n > tc.calls+1 {
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

// A commit deletes the members with their locks and creates the new task in one transition.
func TestCommitAggregation(t *testing.T) {
	for name, tc := range map[string]struct {
		task func(*rdb.NewTask)
		want string
	}{
		"pending":                   {func(*rdb.NewTask) {}, "asynq:{q}:pending"},
		"later":                     {func(n *rdb.NewTask) { n.ProcessAt = time.Now().Add(time.Hour).Unix() }, "asynq:{q}:scheduled"},
		"grouped":                   {func(n *rdb.NewTask) { n.Group = "second" }, "asynq:{q}:g:second"},
		"unique":                    {func(n *rdb.NewTask) { redistest.Lock(n, "fresh") }, "asynq:{q}:pending"},
		"with the lock of a member": {func(n *rdb.NewTask) { redistest.Lock(n, "a") }, "asynq:{q}:pending"},
	} {
		t.Run(name, func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				ctx := context.Background()
				r.Make(t, redistest.Lock(grouped(t, "a", "g"), "a"), grouped(t, "b", "g"))
				sets := stage(t, r.Broker(), rdb.GroupRule{Grace: time.Minute, MaxSize: 2})
				task := redistest.NewTask(t, "q", "sum")
				tc.task(task)
				if code := commit(t, r.Broker(), sets[0], task); code != script.CodeOK {
					t.Fatalf("code %d", code)
				}
				if code := commit(t, r.Broker(), sets[0], task); code != script.CodeLost {
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

// A refused task leaves its set unchanged and does not affect the rest of the batch.
func TestCommitAggregationRefused(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		r.Make(t, redistest.Lock(redistest.NewTask(t, "q", "taken"), "held"))
		r.Make(t, grouped(t, "a", "ga"), grouped(t, "b", "gb"), grouped(t, "c", "gc"), grouped(t, "d", "gd"))
		redistest.Must(t, r.Client().Set(context.Background(), "asynq:{q}:g:wrong", "no set", 0))
		sets := stage(t, r.Broker(), atOnce)
		task := func(id string, change func(*rdb.NewTask)) rdb.NewTask {
			n := redistest.NewTask(t, "q", id)
			change(n)
			return *n
		}
		items := []*rdb.Aggregation{
			{Set: sets[0], Task: task("taken", func(*rdb.NewTask) {})},
			{Set: sets[1], Task: task("second", func(n *rdb.NewTask) { redistest.Lock(n, "held") })},
			{Set: sets[2], Task: task("third", func(n *rdb.NewTask) { n.Group = "wrong" })},
			{Set: sets[3], Task: task("fourth", func(*rdb.NewTask) {})},
		}
		r.Broker().CommitAggregations(context.Background(), "q", items)
		if items[0].Code != script.CodeConflict || items[1].Code != script.CodeDuplicate || items[2].Err == nil || items[3].Code != script.CodeOK {
			t.Errorf("codes %d, %d, error %v, code %d", items[0].Code, items[1].Code, items[2].Err, items[3].Code)
		}
		redistest.Must(t, r.Client().Del(context.Background(), "asynq:{q}:g:wrong"))
		if err := r.Broker().ReturnToGroup(context.Background(), "q", sets); err != nil {
			t.Error(err)
		}
		if again := stage(t, r.Broker(), atOnce); len(again) != 3 {
			t.Errorf("staged again: %v, want the three refused", sizes(again))
		}
	})
}

// Expired sets return to their groups and keep the times of their tasks; sets that have not expired
// or were extended stay. A server that lost a set cannot commit it.
func TestReturnToGroup(t *testing.T) {
	for _, size := range []int{2, 1200} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				ctx, b, k := context.Background(), r.Broker(), r.Broker().Keys("q")
				fill(t, r, "g", size)
				addedAgo(t, r, "g", time.Hour, "g1")
				sets := stage(t, b, rdb.GroupRule{Grace: time.Minute, MaxSize: size})
				if more, err := b.ReturnExpiredSets(ctx, "q"); more || err != nil || r.Client().Exists(ctx, k.Group("g")).Val() != 0 {
					t.Errorf("a set in time was touched; more: %t, error %v", more, err)
				}
				redistest.Must(t, r.Client().ZAdd(ctx, k.AggregationSets(), z(sets[0].Key, time.Now().Add(-time.Second).Unix())))
				calls := 0
				for more := true; more; calls++ {
					var err error
					if more, err = b.ReturnExpiredSets(ctx, "q"); err != nil {
						t.Fatal(err)
					}
					if code := commit(t, b, sets[0], redistest.NewTask(t, "q", "late")); code != script.CodeLost {
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

// SweepGroups finds tasks that other libraries add to groups, and groups that servers with other
// settings check too late.
func TestSweepGroups(t *testing.T) {
	for name, tc := range map[string]struct {
		rule rdb.GroupRule
		due  time.Duration // when groups_due says that the group is due; 0: no entry
		want bool
	}{
		"unknown":                      {rdb.GroupRule{Grace: 10 * time.Second}, 0, true},
		"known":                        {rdb.GroupRule{Grace: 10 * time.Second}, 5 * time.Second, false},
		"later than the grace period":  {rdb.GroupRule{Grace: 10 * time.Second}, time.Minute, true},
		"later than the maximum delay": {rdb.GroupRule{Grace: 90 * time.Second, MaxDelay: 30 * time.Second}, time.Minute, true},
		"full":                         {rdb.GroupRule{Grace: 90 * time.Second, MaxSize: 2}, time.Minute, true},
		"not full":                     {rdb.GroupRule{Grace: 90 * time.Second, MaxSize: 3}, time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
				ctx, k := context.Background(), r.Broker().Keys("q")
				fill(t, r, "g", 2)
				redistest.Must(t, r.Client().Del(ctx, k.GroupsDue()))
				if tc.due > 0 {
					redistest.Must(t, r.Client().ZAdd(ctx, k.GroupsDue(), z("g", time.Now().Add(tc.due).Unix())))
					redistest.Must(t, r.Client().Expire(ctx, k.GroupsDue(), time.Hour))
				}
				if err := r.Broker().SweepGroups(ctx, "q", tc.rule, time.Minute); err != nil {
					t.Fatal(err)
				}
				score, err := r.Client().ZScore(ctx, k.GroupsDue(), "g").Result()
				if got := err == nil && score <= float64(time.Now().Unix()); got != tc.want {
					t.Errorf("due soon: %t, want %t (score %v)", got, tc.want, score)
				}
				redistest.Must(t, r.Client().Del(ctx, k.GroupsDue()))
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

// A task that returned to its group belongs to the server that stages it next: its previous holder
// cannot archive it.
func TestArchiveInvalidAfterReturnToGroup(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		fill(t, r, "g", 2)
		sets := stage(t, b, rdb.GroupRule{MaxSize: 2})
		if err := b.ReturnToGroup(ctx, "q", sets); err != nil {
			t.Fatal(err)
		}
		redistest.Unchanged(t, r, "setting aside what is back in its group", func() {
			if _, err := b.ArchiveInvalid(ctx, sets[0], "g1"); err != nil {
				t.Error(err)
			}
		})
	})
}

// The new task can take over the lock of a task in its set, but not an ID that is in use.
func TestCommitAggregationTakenIDWithOwnLock(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		b := r.Broker()
		r.Make(t, redistest.NewTask(t, "q", "taken"), redistest.Lock(grouped(t, "g1", "g"), "x"), grouped(t, "h1", "h"))
		for _, set := range stage(t, b, atOnce) {
			if set.Group != "g" {
				continue
			}
			for _, id := range []string{"taken", "h1"} {
				redistest.Unchanged(t, r, "a commit as "+id, func() {
					if code := commit(t, b, set, redistest.Lock(redistest.NewTask(t, "q", id), "x")); code != script.CodeConflict {
						t.Errorf("code %d, want %d", code, script.CodeConflict)
					}
				})
			}
		}
	})
}
