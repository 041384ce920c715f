package asynq_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
)

// everyState makes a task of each state, whose ID is the state, with a lock; and one that is being aggregated, "staged". The active one
// succeeds when the returned function is called.
func (s *site) everyState() (finish func()) {
	s.t.Helper()
	ctx := context.Background()
	started, over := make(chan struct{}), make(chan struct{})
	for id, opts := range map[string][]asynq.Option{"active": nil, "retry": nil, "archived": nil, "completed": {asynq.Retention(time.Hour)}} {
		s.enqueue(id, append(opts, asynq.Unique(time.Hour))...)
	}
	srv := s.serve(asynq.Config{}, func(_ context.Context, task *asynq.Task) error {
		switch task.Type() {
		case "retry":
			return errors.New("failed")
		case "archived":
			return asynq.SkipRetry
		case "active":
			close(started)
			<-over
		}
		return nil
	})
	finish = sync.OnceFunc(func() { close(over) })
	s.t.Cleanup(finish)
	receive(s, started, "the task to start")
	for _, id := range []string{"retry", "archived", "completed"} {
		s.awaitState(id, id)
	}
	srv.Stop() // it takes nothing more
	s.enqueue("pending", asynq.Unique(time.Hour))
	s.enqueue("scheduled", asynq.Unique(time.Hour), asynq.ProcessIn(time.Hour))
	s.enqueue("aggregating", asynq.Unique(time.Hour), asynq.Group("g"))
	s.enqueue("staged", asynq.Unique(time.Hour), asynq.Group("g"))
	set := s.queue.AggregationSet("g", "u")
	s.redis.ZRem(ctx, s.queue.Group("g"), "staged")
	s.redis.ZAdd(ctx, set, redis.Z{Score: 1, Member: "staged"})
	s.redis.ZAdd(ctx, s.queue.AggregationSets(), redis.Z{Score: 1e10, Member: set})
	return finish
}

func TestInspectorChangesTasks(t *testing.T) {
	const active, staged = "cancel it first with CancelProcessing", "is being aggregated"
	later := time.Now().Add(time.Hour)
	for name, tc := range map[string]struct {
		change  func(i *asynq.Inspector, queue, id string) error
		to      map[string]string // state → state after it; "-": gone
		refused map[string]string // state → why
	}{
		"run": {
			(*asynq.Inspector).RunTask,
			map[string]string{"scheduled": "pending", "retry": "pending", "archived": "pending", "completed": "pending", "aggregating": "pending"},
			map[string]string{"active": active, "staged": staged, "pending": "pending already"},
		},
		"archive": {
			(*asynq.Inspector).ArchiveTask,
			map[string]string{"pending": "archived", "scheduled": "archived", "retry": "archived", "aggregating": "archived"},
			map[string]string{"active": active, "staged": staged, "archived": "archived already", "completed": "completed"},
		},
		"delete": {
			(*asynq.Inspector).DeleteTask,
			map[string]string{"pending": "-", "scheduled": "-", "retry": "-", "archived": "-", "completed": "-", "aggregating": "-"},
			map[string]string{"active": active, "staged": staged},
		},
		"reschedule": {
			func(i *asynq.Inspector, queue, id string) error {
				return i.Reschedule(context.Background(), queue, id, later)
			},
			map[string]string{
				"pending": "scheduled", "scheduled": "scheduled", "retry": "retry", "archived": "scheduled", "completed": "scheduled",
				"aggregating": "scheduled",
			},
			map[string]string{"active": active, "staged": staged},
		},
		"update": {
			func(i *asynq.Inspector, queue, id string) error {
				return i.UpdateTaskPayload(queue, id, []byte("new"))
			},
			map[string]string{"scheduled": "scheduled"},
			map[string]string{
				"active": active, "staged": "not scheduled", "pending": "not scheduled", "retry": "not scheduled", "archived": "not scheduled",
				"completed": "not scheduled", "aggregating": "not scheduled",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(s *site) {
				s.everyState()
				i := s.inspector()
				for id, want := range tc.to {
					if err := tc.change(i, "default", id); err != nil {
						s.t.Errorf("%s: %v", id, err)
					}
					if want == "-" {
						want = ""
					}
					if got := s.state(id); got != want {
						s.t.Errorf("%s is then %q, want %q", id, got, want)
					}
					lock := id
					if want == "" || id == "completed" {
						lock = ""
					}
					if got := s.holder(id); got != lock {
						s.t.Errorf("the lock of %s is held by %q", id, got)
					}
				}
				for id, why := range tc.refused {
					if err := tc.change(i, "default", id); !errors.Is(err, asynq.ErrTaskState) || !strings.Contains(err.Error(), why) {
						s.t.Errorf("%s: %v, want it to say %q", id, err, why)
					}
				}
				if err := tc.change(i, "default", "nobody"); !errors.Is(err, asynq.ErrTaskNotFound) {
					s.t.Errorf("no such task: %v", err)
				}
				if err := tc.change(i, "nowhere", "pending"); !errors.Is(err, asynq.ErrQueueNotFound) {
					s.t.Errorf("no such queue: %v", err)
				}
				if err := tc.change(i, "", "pending"); err == nil {
					s.t.Error("a queue without a name is accepted")
				}
				s.sound("after the changes")
			})
		})
	}
}

func TestRescheduleRoundsUp(t *testing.T) {
	everywhere(t, func(s *site) {
		ctx, i := context.Background(), s.inspector()
		s.enqueue("t", asynq.ProcessIn(time.Hour))
		for at, want := range map[time.Time]float64{
			time.Unix(2_000_000_000, 0): 2_000_000_000, time.Unix(2_000_000_000, 1): 2_000_000_001, time.Unix(2_000_000_000, 999_999_999): 2_000_000_001,
			{}: 0,
		} {
			if err := i.Reschedule(ctx, "default", "t", at); err != nil {
				s.t.Error(err)
			}
			if got := s.redis.ZScore(ctx, s.queue.Scheduled(), "t").Val(); got != want {
				s.t.Errorf("%v becomes %v, want %v", at, got, want)
			}
		}
	})
}

// A server that sleeps until the next task is due hears of one that is due earlier now.
func TestRescheduleIsHeard(t *testing.T) {
	everywhere(t, func(s *site) {
		ran := make(chan struct{})
		s.enqueue("t", asynq.ProcessIn(time.Hour))
		s.serve(asynq.Config{}, func(context.Context, *asynq.Task) error { close(ran); return nil })
		s.eventually(func() bool { return len(s.keys("asynq:servers:*")) == 1 }, "the server to be seen")
		if err := s.inspector().Reschedule(context.Background(), "default", "t", time.Now()); err != nil {
			s.t.Fatal(err)
		}
		receive(s, ran, "the task to run")
	})
}

func TestInspectorChangesAllTasks(t *testing.T) {
	type method func(i *asynq.Inspector) (int, error)
	queue := func(f func(*asynq.Inspector, string) (int, error)) method {
		return func(i *asynq.Inspector) (int, error) { return f(i, "default") }
	}
	group := func(f func(*asynq.Inspector, string, string) (int, error)) method {
		return func(i *asynq.Inspector) (int, error) { return f(i, "default", "g") }
	}
	for name, tc := range map[string]struct {
		change   method
		from, to string
	}{
		"RunAllScheduledTasks":       {queue((*asynq.Inspector).RunAllScheduledTasks), "scheduled", "pending"},
		"RunAllRetryTasks":           {queue((*asynq.Inspector).RunAllRetryTasks), "retry", "pending"},
		"RunAllArchivedTasks":        {queue((*asynq.Inspector).RunAllArchivedTasks), "archived", "pending"},
		"RunAllAggregatingTasks":     {group((*asynq.Inspector).RunAllAggregatingTasks), "aggregating", "pending"},
		"ArchiveAllPendingTasks":     {queue((*asynq.Inspector).ArchiveAllPendingTasks), "pending", "archived"},
		"ArchiveAllScheduledTasks":   {queue((*asynq.Inspector).ArchiveAllScheduledTasks), "scheduled", "archived"},
		"ArchiveAllRetryTasks":       {queue((*asynq.Inspector).ArchiveAllRetryTasks), "retry", "archived"},
		"ArchiveAllAggregatingTasks": {group((*asynq.Inspector).ArchiveAllAggregatingTasks), "aggregating", "archived"},
		"DeleteAllPendingTasks":      {queue((*asynq.Inspector).DeleteAllPendingTasks), "pending", ""},
		"DeleteAllScheduledTasks":    {queue((*asynq.Inspector).DeleteAllScheduledTasks), "scheduled", ""},
		"DeleteAllRetryTasks":        {queue((*asynq.Inspector).DeleteAllRetryTasks), "retry", ""},
		"DeleteAllArchivedTasks":     {queue((*asynq.Inspector).DeleteAllArchivedTasks), "archived", ""},
		"DeleteAllCompletedTasks":    {queue((*asynq.Inspector).DeleteAllCompletedTasks), "completed", ""},
		"DeleteAllAggregatingTasks":  {group((*asynq.Inspector).DeleteAllAggregatingTasks), "aggregating", ""},
	} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(s *site) {
				i := s.inspector()
				if n, err := tc.change(i); n != 0 || !errors.Is(err, asynq.ErrQueueNotFound) {
					s.t.Errorf("no such queue: %d, %v", n, err)
				}
				s.everyState()
				if n, err := tc.change(i); n != 1 || err != nil {
					s.t.Errorf("%d tasks, error %v", n, err)
				}
				for _, id := range []string{"pending", "active", "scheduled", "retry", "archived", "completed", "aggregating", "staged"} {
					want := id
					switch id {
					case tc.from:
						want = tc.to
					case "staged":
						want = "aggregating"
					}
					if got := s.state(id); got != want {
						s.t.Errorf("%s is then %q, want %q", id, got, want)
					}
				}
				if n, err := tc.change(i); n != 0 || err != nil {
					s.t.Errorf("once more: %d tasks, error %v", n, err)
				}
				s.sound("after the change")
			})
		})
	}
}

func TestInspectorChangesNoNamelessGroup(t *testing.T) {
	everywhere(t, func(s *site) {
		s.enqueue("t")
		if n, err := s.inspector().DeleteAllAggregatingTasks("default", ""); n != 0 || err == nil {
			s.t.Errorf("%d, %v", n, err)
		}
	})
}

// A view's context ends its calls.
func TestInspectorChangesWithContext(t *testing.T) {
	everywhere(t, func(s *site) {
		s.enqueue("t")
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		i := s.inspector().WithContext(ctx)
		for name, err := range map[string]error{
			"delete": i.DeleteTask("default", "t"), "queue": i.DeleteQueue("default", true), "update": i.UpdateTaskPayload("default", "t", nil),
		} {
			if !errors.Is(err, context.Canceled) {
				s.t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := i.DeleteAllPendingTasks("default"); !errors.Is(err, context.Canceled) {
			s.t.Errorf("all: %v", err)
		}
	})
}

func TestDeleteQueue(t *testing.T) {
	everywhere(t, func(s *site) {
		i := s.inspector()
		if err := i.DeleteQueue("default", true); !errors.Is(err, asynq.ErrQueueNotFound) {
			s.t.Errorf("no such queue: %v", err)
		}
		finish := s.everyState()
		if err := i.DeleteQueue("default", false); !errors.Is(err, asynq.ErrQueueNotEmpty) {
			s.t.Errorf("without force: %v", err)
		}
		if err := i.DeleteQueue("default", true); err == nil || !strings.Contains(err.Error(), "are active") {
			s.t.Errorf("with an active task: %v", err)
		}
		for _, id := range []string{"pending", "scheduled", "retry", "archived", "completed", "aggregating", "active"} {
			if s.state(id) != id {
				s.t.Errorf("a refused removal made %s %q", id, s.state(id))
			}
		}
		finish()
		s.awaitState("active", "")
		if err := i.DeleteQueue("default", true); err != nil {
			s.t.Error(err)
		}
		if left := s.keys("asynq:{default}:*"); len(left) > 0 {
			s.t.Errorf("it left %q", left)
		}
		if names, err := i.Queues(); err != nil || len(names) != 0 {
			s.t.Errorf("queues: %q, %v", names, err)
		}
	})
}
