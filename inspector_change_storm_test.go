package asynq_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/wire"
)

// The failed attempt of a canceled task counts once, whatever becomes of the task.
func TestCancelAndSettle(t *testing.T) {
	ctx := context.Background()
	for name, tc := range map[string]struct {
		cancel  func(i *asynq.Inspector, ctx context.Context, id string) error
		returns error
		state   string
		failed  string
	}{
		"archive":              {(*asynq.Inspector).CancelAndArchive, context.Canceled, "archived", "1"},
		"archive, a success":   {(*asynq.Inspector).CancelAndArchive, nil, "", ""},
		"delete":               {(*asynq.Inspector).CancelAndDelete, context.Canceled, "", "1"},
		"delete, snoozing":     {(*asynq.Inspector).CancelAndDelete, asynq.Snooze(time.Hour), "", "1"},
		"delete, a success":    {(*asynq.Inspector).CancelAndDelete, nil, "", ""},
		"delete, revoked":      {(*asynq.Inspector).CancelAndDelete, asynq.RevokeTask, "", ""},
		"an odd ID, and retry": {func(i *asynq.Inspector, ctx context.Context, id string) error { return i.CancelProcessing(id) }, context.Canceled, "retry", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(s *site) {
				id := "delete me, archive me: " + t.Name() + s.Addr // channels are those of all databases
				started := make(chan struct{}, 1)
				s.enqueue(id, asynq.Unique(time.Hour))
				s.serve(asynq.Config{}, func(ctx context.Context, _ *asynq.Task) error {
					started <- struct{}{}
					<-ctx.Done()
					if !errors.Is(context.Cause(ctx), asynq.ErrTaskCanceled) {
						t.Errorf("the cause is %v", context.Cause(ctx))
					}
					return tc.returns
				})
				receive(s, started, "the task to start")
				s.eventually(func() bool { // the server may not listen yet
					if err := tc.cancel(s.inspector(), ctx, id); err != nil {
						t.Error(err)
					}
					return s.state(id) == tc.state
				}, "the task to be %q", tc.state)
				get := func(key string) string { return s.redis.Get(ctx, key).Val() }
				s.eventually(func() bool { return get(s.queue.Processed()) == "1" }, "the attempt to be counted")
				if got := get(s.queue.Failed()); got != tc.failed {
					s.t.Errorf("%q attempts failed, want %q", got, tc.failed)
				}
				if got := get(s.queue.FailedOn(time.Now())); got != tc.failed {
					s.t.Errorf("%q attempts failed today, want %q", got, tc.failed)
				}
				if got := s.holder(id); (got == id) != (tc.state != "") {
					s.t.Errorf("the lock is held by %q", got)
				}
				if tc.state == "archived" && s.message(id).LastErr != context.Canceled.Error() {
					s.t.Errorf("its last error is %q", s.message(id).LastErr)
				}
				s.sound("after the cancellation")
			})
		})
	}
}

// Workers, clients and operators at once: every task has exactly one end, and everything is in order.
func TestChangesInAStorm(t *testing.T) {
	everywhere(t, func(s *site) {
		const clients, each = 4, 150
		var ran tally
		cfg := asynq.Config{Concurrency: 8, RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Second }}
		handler := func(_ context.Context, task *asynq.Task) error {
			ran.add(task.Type())
			switch len(task.Type()) % 3 {
			case 0:
				return errors.New("failed")
			case 1:
				return asynq.SkipRetry
			}
			return nil
		}
		first, second := s.serve(cfg, handler), s.serve(cfg, handler)
		enqueued := make(chan struct{}, clients)
		for c := range clients {
			go func() {
				defer func() { enqueued <- struct{}{} }()
				for n := range each {
					id := fmt.Sprintf("%0*d", 6+n%4, c*each+n)
					opts := [][]asynq.Option{
						{}, {asynq.ProcessIn(time.Second)}, {asynq.Group("g")}, {asynq.Retention(time.Hour)}, {asynq.ProcessIn(time.Hour)}, {asynq.Unique(time.Hour)},
					}[n%6]
					if _, err := s.client.Enqueue(asynq.NewTask(id, nil), append(opts, asynq.TaskID(id))...); err != nil {
						t.Errorf("enqueue of %s: %v", id, err)
					}
				}
			}()
		}
		i := s.inspector()
		stop := make(chan struct{})
		deletions := make(chan int, 3)
		operators := []func() (deleted int, err error){
			func() (int, error) {
				_, err := i.RunAllScheduledTasks("default")
				_, err2 := i.RunAllRetryTasks("default")
				_, err3 := i.RunAllArchivedTasks("default")
				return 0, errors.Join(err, err2, err3)
			},
			func() (int, error) {
				_, err := i.ArchiveAllPendingTasks("default")
				_, err2 := i.ArchiveAllAggregatingTasks("default", "g")
				n, err3 := i.DeleteAllRetryTasks("default")
				return n, errors.Join(err, err2, err3)
			},
			func() (int, error) {
				n, err := i.DeleteAllPendingTasks("default")
				m, err2 := i.DeleteAllScheduledTasks("default")
				return n + m, errors.Join(err, err2)
			},
		}
		for _, operate := range operators {
			go func() {
				deleted := 0
				defer func() { deletions <- deleted }()
				for {
					n, err := operate()
					deleted += n
					if err != nil && !errors.Is(err, asynq.ErrQueueNotFound) {
						t.Error(err)
					}
					select {
					case <-stop:
						return
					default:
					}
				}
			}()
		}
		for range clients {
			receive(s, enqueued, "the clients")
		}
		close(stop)
		deleted := 0
		for range operators {
			deleted += receive(s, deletions, "the operators")
		}
		first.Shutdown()
		second.Shutdown()
		s.sound("after a storm")
		left, succeeded := 0, 0
		for _, key := range s.keys(s.queue.TaskPrefix() + "*") {
			if s.redis.HGet(context.Background(), key, wire.FieldState).Val() == "completed" {
				continue
			}
			left++
		}
		processed, _ := s.redis.Get(context.Background(), s.queue.Processed()).Int()
		failed, _ := s.redis.Get(context.Background(), s.queue.Failed()).Int()
		succeeded = processed - failed
		// A task ends by success, once, or by deletion, or is still there. Those that are kept after success count as such.
		if got := left + succeeded + deleted; got != clients*each {
			s.t.Errorf("%d left, %d succeeded, %d deleted: %d tasks of %d", left, succeeded, deleted, got, clients*each)
		}
		if err := i.DeleteQueue("default", true); err != nil {
			s.t.Error(err)
		}
		if left := s.keys("asynq:{default}:*"); len(left) > 0 {
			s.t.Errorf("the queue is gone, and there is %q", left)
		}
	})
}
