package guarantee_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
)

// sums is an aggregator and a handler. It aggregates a group into a task "sum" whose payload is the
// sorted list of the types of its members, and records the payloads that it processes.
type sums struct {
	mu   sync.Mutex
	seen []string
}

func newSums() *sums { return &sums{} }

func (s *sums) Aggregate(group string, tasks []*asynq.Task) *asynq.Task {
	types := make([]string, len(tasks))
	for i, task := range tasks {
		types[i] = task.Type()
	}
	slices.Sort(types)
	return asynq.NewTask("sum", []byte(group+": "+strings.Join(types, " ")), asynq.Queue("ignored"))
}

func (s *sums) ProcessTask(_ context.Context, task *asynq.Task) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, string(task.Payload()))
	return nil
}

func (s *sums) list() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(slices.Values(s.seen))
}

// awaitSums waits until tasks with exactly these payloads are processed.
func awaitSums(env *testenv.Env, got *sums, want ...string) {
	env.T.Helper()
	env.Eventually(func() bool { return len(got.list()) >= len(want) }, "%d aggregated tasks", len(want))
	if list := got.list(); !slices.Equal(list, want) {
		env.T.Errorf("processed %q, want %q", list, want)
	}
	env.AwaitEmpty()
}

// inTwos returns a configuration that aggregates two tasks at a time.
func inTwos(a asynq.GroupAggregator) asynq.Config {
	return asynq.Config{GroupAggregator: a, GroupMaxSize: 2, GroupGracePeriod: time.Hour}
}

func TestGuarantee10Groups(t *testing.T) {
	t.Parallel()
	t.Run("every task is aggregated", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			got := newSums()
			env.Serve(inTwos(got), got.ProcessTask)
			env.Enqueue("a", asynq.Group("g"))
			env.Enqueue("b", asynq.Group("g"), asynq.ProcessIn(time.Millisecond))
			env.Enqueue("c", asynq.Group("h"), asynq.Unique(time.Hour))
			env.Enqueue("d", asynq.Group("h"), asynq.Retention(time.Hour))
			awaitSums(env, got, "g: a b", "h: c d")
			if left := remainingKeys(env); len(left) > 0 {
				t.Errorf("keys left: %v", left)
			}
		})
	})
	t.Run("grace period", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			got := newSums()
			env.EnqueueMany(3, asynq.Group("g"))
			ageGroup(env, "g", time.Hour)
			env.Serve(asynq.Config{GroupAggregator: got, GroupGracePeriod: time.Minute}, got.ProcessTask)
			awaitSums(env, got, "g: t0 t1 t2")
		})
	})
	t.Run("maximum delay", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			got := newSums()
			env.Enqueue("old", asynq.Group("g"))
			ageGroup(env, "g", time.Hour)
			env.Enqueue("new", asynq.Group("g"))
			env.Serve(asynq.Config{GroupAggregator: got, GroupMaxDelay: time.Minute}, got.ProcessTask)
			awaitSums(env, got, "g: new old")
		})
	})
	t.Run("group of the reference library", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			got := newSums()
			env.EnqueueMany(2, asynq.Group("g"))
			env.RDB.Del(context.Background(), env.Queue.GroupsDue())
			env.Serve(inTwos(got), got.ProcessTask)
			awaitSums(env, got, "g: t0 t1")
		})
	})
	t.Run("aggregation of a crashed server", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			ctx := context.Background()
			env.EnqueueMany(2, asynq.Group("g"))
			set := env.Queue.AggregationSet("g", "of-the-dead")
			env.RDB.Rename(ctx, env.Queue.Group("g"), set)
			env.RDB.Del(ctx, env.Queue.Groups(), env.Queue.GroupsDue())
			env.RDB.ZAdd(ctx, env.Queue.AggregationSets(), redis.Z{Member: set, Score: float64(time.Now().Add(-time.Second).Unix())})
			got := newSums()
			env.Serve(inTwos(got), got.ProcessTask)
			awaitSums(env, got, "g: t0 t1")
		})
	})
	t.Run("settings per queue", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			all, threes := newSums(), newSums()
			cfg := inTwos(all)
			cfg.Queues = map[string]int{"default": 1, "threes": 1, "left": 1}
			cfg.QueueConfigs = map[string]asynq.QueueConfig{"threes": {Group: asynq.GroupConfig{MaxSize: 3, Aggregator: threes}}}
			env.Serve(cfg, func(ctx context.Context, task *asynq.Task) error {
				if queue, _ := asynq.GetQueueName(ctx); queue == "threes" {
					return threes.ProcessTask(ctx, task)
				}
				return all.ProcessTask(ctx, task)
			})
			for i := range 6 {
				env.Enqueue("d"+strconv.Itoa(i), asynq.Group("g"))
				env.Enqueue("t"+strconv.Itoa(i), asynq.Group("g"), asynq.Queue("threes"))
			}
			env.Eventually(func() bool { return len(threes.list()) == 2 && len(all.list()) == 3 }, "5 aggregated tasks")
		})
	})
	t.Run("a failing aggregator loses no task", func(t *testing.T) {
		for name, fail := range map[string]func() *asynq.Task{
			"panic":   func() *asynq.Task { panic("no sum") },
			"Goexit":  func() *asynq.Task { runtime.Goexit(); return nil },
			"no task": func() *asynq.Task { return nil },
			"invalid": func() *asynq.Task { return asynq.NewTask("", nil) },
			"taken":   func() *asynq.Task { return asynq.NewTask("sum", nil, asynq.TaskID("taken")) },
		} {
			t.Run(name, func(t *testing.T) {
				testenv.Each(t, func(env *testenv.Env) {
					got := newSums()
					env.Enqueue("taken", asynq.ProcessIn(time.Hour))
					env.EnqueueMany(2, asynq.Group("bad"))
					env.Enqueue("a", asynq.Group("good"))
					env.Enqueue("b", asynq.Group("good"))
					srv := env.Serve(inTwos(asynq.GroupAggregatorFunc(func(group string, tasks []*asynq.Task) *asynq.Task {
						if group == "bad" {
							return fail()
						}
						return got.Aggregate(group, tasks)
					})), got.ProcessTask)
					env.Eventually(func() bool { return slices.Equal(got.list(), []string{"good: a b"}) }, "the group good")
					env.Eventually(func() bool { return env.Log.Count("ERROR", "group=bad") > 0 }, "a log line")
					srv.Shutdown()
					ctx := context.Background()
					for _, set := range env.RDB.ZRange(ctx, env.Queue.AggregationSets(), 0, -1).Val() {
						env.RDB.ZAdd(ctx, env.Queue.AggregationSets(), redis.Z{Member: set, Score: 1})
					}
					env.Serve(inTwos(got), got.ProcessTask)
					env.Eventually(func() bool { return slices.Contains(got.list(), "bad: t0 t1") }, "the group bad")
				})
			})
		}
	})
	t.Run("concurrent servers aggregate each task once", func(t *testing.T) {
		testenv.Each(t, func(env *testenv.Env) {
			got := newSums()
			for range 3 {
				cfg := inTwos(got)
				cfg.GroupMaxSize = 5
				env.Serve(cfg, got.ProcessTask)
			}
			const groups, size = 20, 15
			var tasks []*asynq.Task
			for i := range groups * size {
				tasks = append(tasks, asynq.NewTask(fmt.Sprint("t", i), nil, asynq.Group(fmt.Sprint("g", i%groups))))
			}
			for _, result := range env.Client.BatchEnqueueContext(context.Background(), tasks) {
				if result.Err != nil {
					t.Fatal(result.Err)
				}
			}
			env.Eventually(func() bool { return len(got.list()) >= groups*size/5 }, "all groups")
			seen := make(map[string]bool)
			for _, sum := range got.list() {
				_, types, _ := strings.Cut(sum, ": ")
				for _, typ := range strings.Fields(types) {
					if seen[typ] {
						t.Errorf("%s was aggregated twice", typ)
					}
					seen[typ] = true
				}
			}
			if len(seen) != groups*size {
				t.Errorf("%d tasks were aggregated, want %d", len(seen), groups*size)
			}
		})
	})
}

// ageGroup moves the arrival of the tasks of a group of the default queue to the past.
func ageGroup(env *testenv.Env, group string, ago time.Duration) {
	ctx := context.Background()
	for _, id := range env.RDB.ZRange(ctx, env.Queue.Group(group), 0, -1).Val() {
		env.RDB.ZAdd(ctx, env.Queue.Group(group), redis.Z{Member: id, Score: float64(time.Now().Add(-ago).Unix())})
	}
}
