package asynq_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
)

// sums is an aggregator that makes a task "sum" with the types of the tasks of a group, sorted, as its payload, and a handler that
// takes note of these payloads.
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

// awaitSums waits until tasks with these payloads, and no others, were processed.
func (s *site) awaitSums(got *sums, want ...string) {
	s.t.Helper()
	s.eventually(func() bool { return len(got.list()) >= len(want) }, "%d aggregated tasks", len(want))
	if list := got.list(); !slices.Equal(list, want) {
		s.t.Errorf("processed %q, want %q", list, want)
	}
	s.awaitEmpty()
}

// inTwos aggregates groups of two tasks.
func inTwos(a asynq.GroupAggregator) asynq.Config {
	return asynq.Config{GroupAggregator: a, GroupMaxSize: 2, GroupGracePeriod: time.Hour}
}

func TestGuarantee10Groups(t *testing.T) {
	t.Parallel()
	t.Run("every task is aggregated", func(t *testing.T) {
		everywhere(t, func(s *site) {
			got := newSums()
			s.serve(inTwos(got), got.ProcessTask)
			s.enqueue("a", asynq.Group("g"))
			s.enqueue("b", asynq.Group("g"), asynq.ProcessIn(time.Millisecond))
			s.enqueue("c", asynq.Group("h"), asynq.Unique(time.Hour))
			s.enqueue("d", asynq.Group("h"), asynq.Retention(time.Hour))
			s.awaitSums(got, "g: a b", "h: c d")
			if left := s.remains(); len(left) > 0 {
				t.Errorf("they left %v", left)
			}
		})
	})
	t.Run("a group of tasks that come no more", func(t *testing.T) {
		everywhere(t, func(s *site) {
			got := newSums()
			s.enqueueMany(3, asynq.Group("g"))
			s.age("g", time.Hour)
			s.serve(asynq.Config{GroupAggregator: got, GroupGracePeriod: time.Minute}, got.ProcessTask)
			s.awaitSums(got, "g: t0 t1 t2")
		})
	})
	t.Run("a group of tasks that go on coming", func(t *testing.T) {
		everywhere(t, func(s *site) {
			got := newSums()
			s.enqueue("old", asynq.Group("g"))
			s.age("g", time.Hour)
			s.enqueue("new", asynq.Group("g"))
			s.serve(asynq.Config{GroupAggregator: got, GroupMaxDelay: time.Minute}, got.ProcessTask)
			s.awaitSums(got, "g: new old")
		})
	})
	t.Run("filled by other libraries' processes", func(t *testing.T) {
		everywhere(t, func(s *site) {
			got := newSums()
			s.enqueueMany(2, asynq.Group("g"))
			s.redis.Del(context.Background(), s.queue.GroupsDue())
			s.serve(inTwos(got), got.ProcessTask)
			s.awaitSums(got, "g: t0 t1")
		})
	})
	t.Run("taken by a server that died", func(t *testing.T) {
		everywhere(t, func(s *site) {
			ctx := context.Background()
			s.enqueueMany(2, asynq.Group("g"))
			set := s.queue.AggregationSet("g", "of-the-dead")
			s.redis.Rename(ctx, s.queue.Group("g"), set)
			s.redis.Del(ctx, s.queue.Groups(), s.queue.GroupsDue())
			s.redis.ZAdd(ctx, s.queue.AggregationSets(), redis.Z{Member: set, Score: float64(time.Now().Add(-time.Second).Unix())})
			got := newSums()
			s.serve(inTwos(got), got.ProcessTask)
			s.awaitSums(got, "g: t0 t1")
		})
	})
	t.Run("settings of a queue", func(t *testing.T) {
		everywhere(t, func(s *site) {
			all, threes := newSums(), newSums()
			cfg := inTwos(all)
			cfg.Queues = map[string]int{"default": 1, "threes": 1, "left": 1}
			cfg.GroupConfigs = map[string]asynq.GroupConfig{"threes": {MaxSize: 3, Aggregator: threes}}
			s.serve(cfg, func(ctx context.Context, task *asynq.Task) error {
				if queue, _ := asynq.GetQueueName(ctx); queue == "threes" {
					return threes.ProcessTask(ctx, task)
				}
				return all.ProcessTask(ctx, task)
			})
			for i := range 6 {
				s.enqueue("d"+strconv.Itoa(i), asynq.Group("g"))
				s.enqueue("t"+strconv.Itoa(i), asynq.Group("g"), asynq.Queue("threes"))
			}
			s.eventually(func() bool { return len(threes.list()) == 2 && len(all.list()) == 3 }, "5 aggregated tasks")
		})
	})
	t.Run("user code that fails loses nothing", func(t *testing.T) {
		for name, fail := range map[string]func() *asynq.Task{
			"panic":   func() *asynq.Task { panic("no sum") },
			"no task": func() *asynq.Task { return nil },
			"invalid": func() *asynq.Task { return asynq.NewTask("", nil) },
			"taken":   func() *asynq.Task { return asynq.NewTask("sum", nil, asynq.TaskID("taken")) },
		} {
			t.Run(name, func(t *testing.T) {
				everywhere(t, func(s *site) {
					got := newSums()
					s.enqueue("taken", asynq.ProcessIn(time.Hour))
					s.enqueueMany(2, asynq.Group("bad"))
					s.enqueue("a", asynq.Group("good"))
					s.enqueue("b", asynq.Group("good"))
					srv := s.serve(inTwos(asynq.GroupAggregatorFunc(func(group string, tasks []*asynq.Task) *asynq.Task {
						if group == "bad" {
							return fail()
						}
						return got.Aggregate(group, tasks)
					})), got.ProcessTask)
					s.eventually(func() bool { return slices.Equal(got.list(), []string{"good: a b"}) }, "the good group")
					s.eventually(func() bool { return s.log.count("ERROR", "group=bad") > 0 }, "a log line")
					srv.Shutdown()
					ctx := context.Background()
					for _, set := range s.redis.ZRange(ctx, s.queue.AggregationSets(), 0, -1).Val() {
						s.redis.ZAdd(ctx, s.queue.AggregationSets(), redis.Z{Member: set, Score: 1})
					}
					s.serve(inTwos(got), got.ProcessTask)
					s.eventually(func() bool { return slices.Contains(got.list(), "bad: t0 t1") }, "the bad group")
				})
			})
		}
	})
	t.Run("servers at once aggregate each task once", func(t *testing.T) {
		everywhere(t, func(s *site) {
			got := newSums()
			for range 3 {
				cfg := inTwos(got)
				cfg.GroupMaxSize = 5
				s.serve(cfg, got.ProcessTask)
			}
			const groups, size = 20, 15
			var tasks []*asynq.Task
			for i := range groups * size {
				tasks = append(tasks, asynq.NewTask(fmt.Sprint("t", i), nil, asynq.Group(fmt.Sprint("g", i%groups))))
			}
			for _, result := range s.client.BatchEnqueueContext(context.Background(), tasks) {
				if result.Err != nil {
					t.Fatal(result.Err)
				}
			}
			s.eventually(func() bool { return len(got.list()) >= groups*size/5 }, "all groups")
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

// age lets the tasks of a group of the default queue have been added some time ago.
func (s *site) age(group string, ago time.Duration) {
	ctx := context.Background()
	for _, id := range s.redis.ZRange(ctx, s.queue.Group(group), 0, -1).Val() {
		s.redis.ZAdd(ctx, s.queue.Group(group), redis.Z{Member: id, Score: float64(time.Now().Add(-ago).Unix())})
	}
}

func TestGroupSettingsAreValidated(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]asynq.Config{
		"of all":     {GroupGracePeriod: time.Millisecond},
		"of a queue": {GroupConfigs: map[string]asynq.GroupConfig{"q": {GracePeriod: time.Millisecond}}},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if text := fmt.Sprint(recover()); !strings.Contains(text, "at least 1 s") {
					t.Errorf("panic %q", text)
				}
			}()
			asynq.NewServer(asynq.RedisClientOpt{Addr: "localhost:0"}, cfg)
		})
	}
}
