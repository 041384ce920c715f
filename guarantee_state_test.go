package asynq_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/wire"
)

// collections is the keys that hold an ID, as often as they do.
func (s *site) collections(id string) []string {
	ctx := context.Background()
	var in []string
	for _, key := range []string{s.queue.Pending(), s.queue.Active()} {
		for _, member := range s.redis.LRange(ctx, key, 0, -1).Val() {
			if member == id {
				in = append(in, key)
			}
		}
	}
	sets := []string{s.queue.Scheduled(), s.queue.Retry(), s.queue.Archived(), s.queue.Completed()}
	for _, key := range append(sets, s.keys(s.queue.GroupPrefix()+"*")...) {
		if s.redis.ZScore(ctx, key, id).Err() == nil {
			in = append(in, key)
		}
	}
	return in
}

// wantIn fails the test unless the task is in one collection, and its hash says so.
func (s *site) wantIn(id string, state wire.State, key string) {
	s.t.Helper()
	if got := s.collections(id); !slices.Equal(got, []string{key}) {
		s.t.Errorf("%s is in %v, want only %s", id, got, key)
	}
	if got := s.state(id); got != state.String() {
		s.t.Errorf("the hash of %s says %q, want %q", id, got, state)
	}
	leased := s.redis.ZScore(context.Background(), s.queue.Lease(), id).Err() == nil
	if leased != (state == wire.StateActive) {
		s.t.Errorf("%s is %v, and has a lease: %v", id, state, leased)
	}
}

func TestGuarantee02OneState(t *testing.T) {
	t.Parallel()
	t.Run("new", func(t *testing.T) {
		everywhere(t, func(s *site) {
			s.enqueue("pending")
			s.enqueue("scheduled", asynq.ProcessIn(time.Hour))
			s.enqueue("grouped", asynq.Group("g"))
			s.enqueue("later-grouped", asynq.Group("g"), asynq.ProcessIn(time.Hour))
			s.wantIn("pending", wire.StatePending, s.queue.Pending())
			s.wantIn("scheduled", wire.StateScheduled, s.queue.Scheduled())
			s.wantIn("grouped", wire.StateAggregating, s.queue.Group("g"))
			s.wantIn("later-grouped", wire.StateScheduled, s.queue.Scheduled())
		})
	})
	t.Run("active if and only if leased", func(t *testing.T) {
		everywhere(t, func(s *site) {
			started, proceed := make(chan string, 4), make(chan struct{})
			s.enqueueMany(4)
			s.serve(asynq.Config{Concurrency: 3}, func(_ context.Context, task *asynq.Task) error {
				started <- task.Type()
				<-proceed
				return nil
			})
			for range 3 {
				s.wantIn(receive(s, started, "a task to start"), wire.StateActive, s.queue.Active())
			}
			s.wantIn("t3", wire.StatePending, s.queue.Pending())
			s.sound("while tasks are active")
			close(proceed)
			s.awaitEmpty()
		})
	})
	t.Run("after every outcome", func(t *testing.T) { everywhere(t, everyOutcome) })
	t.Run("in a storm", func(t *testing.T) { everywhere(t, everythingAtOnce) })
}

// everyOutcome looks where tasks are that have had their outcome.
func everyOutcome(s *site) {
	outcomes := map[string]error{
		"done": nil, "completed": nil, "retry": errors.New("failed"), "archived": asynq.SkipRetry, "revoked": asynq.RevokeTask,
		"exhausted": errors.New("failed"), "snoozed": asynq.Snooze(time.Hour), "retry-after": asynq.RetryAfter(time.Hour), "panics": nil,
	}
	opts := map[string][]asynq.Option{"completed": {asynq.Retention(time.Hour)}, "exhausted": {asynq.MaxRetry(0)}}
	for id := range outcomes {
		s.enqueue(id, append(opts[id], asynq.Unique(time.Hour))...)
	}
	srv := s.serve(asynq.Config{}, func(_ context.Context, task *asynq.Task) error {
		if task.Type() == "panics" {
			panic("as it must")
		}
		return outcomes[task.Type()]
	})
	for id, state := range map[string]string{
		"done": "", "completed": "completed", "retry": "retry", "archived": "archived", "revoked": "", "exhausted": "archived",
		"snoozed": "retry", "retry-after": "retry", "panics": "retry",
	} {
		s.awaitState(id, state)
	}
	srv.Shutdown()
	s.wantIn("completed", wire.StateCompleted, s.queue.Completed())
	for _, id := range []string{"archived", "exhausted"} {
		s.wantIn(id, wire.StateArchived, s.queue.Archived())
	}
	for _, id := range []string{"retry", "snoozed", "retry-after", "panics"} {
		s.wantIn(id, wire.StateRetry, s.queue.Retry())
	}
	for _, id := range []string{"done", "revoked"} {
		if in := s.collections(id); in != nil {
			s.t.Errorf("%s is over and in %v", id, in)
		}
	}
	// A lock belongs to a living task: those of the tasks that are over, or have succeeded, are gone.
	if locks := s.keys("*:unique:*"); len(locks) != 6 {
		s.t.Errorf("there are %d locks, want those of 6 tasks: %v", len(locks), locks)
	}
	s.sound("after every outcome")
}

// everythingAtOnce gives tasks of all kinds to two servers whose connections fail, stops these, and looks for anything broken.
func everythingAtOnce(s *site) {
	p, opt := s.proxy()
	client := s.clientOn(opt)
	var ran tally
	handler := func(ctx context.Context, task *asynq.Task) error {
		n := ran.add(task.Type())
		switch len(task.Type()) * n % 7 {
		case 0:
			return asynq.SkipRetry
		case 1:
			return errors.New("failed")
		case 2:
			panic("as it must")
		case 3:
			return asynq.Snooze(time.Millisecond)
		}
		_, err := task.ResultWriter().Write([]byte("result"))
		return err
	}
	cfg := asynq.Config{
		Concurrency: 4, LeaseDuration: time.Second, ShutdownTimeout: time.Second,
		RetryDelayFunc: func(n int, _ error, _ *asynq.Task) time.Duration { return time.Duration(n%2) * time.Second },
	}
	first, second := s.serveOn(opt, cfg, handler), s.serveOn(opt, cfg, handler)
	for i := range 150 {
		id := fmt.Sprintf("%0*d", 1+i%7+3, i)
		opts := [][]asynq.Option{
			{}, {asynq.Unique(time.Minute)}, {asynq.Retention(time.Second)}, {asynq.ProcessIn(time.Second)}, {asynq.MaxRetry(1)},
		}[i%5]
		// Whether a task was accepted is not the subject.
		_, _ = client.Enqueue(asynq.NewTask(id, []byte{byte(i % 3)}), append(opts, asynq.TaskID(id))...)
		switch i % 25 {
		case 10:
			p.Cut()
		case 15:
			s.redis.ScriptFlush(context.Background())
		case 20:
			p.SwallowReplies(3, "evalsha")
		case 24:
			p.LoseCommands(2, "evalsha")
		}
	}
	s.eventually(func() bool { return ran.different() > 100 }, "most tasks to run")
	p.Resume()
	first.Shutdown()
	second.Shutdown()
	if n := s.redis.ZCard(context.Background(), s.queue.Lease()).Val(); n > 0 {
		// What a fetch took whose reply was lost, just before the shutdown: it waits for the end of its lease.
		s.serve(cfg, handler).Stop()
		s.eventually(func() bool { return s.redis.ZCard(context.Background(), s.queue.Lease()).Val() == 0 }, "leases to end")
	}
	s.sound("after a storm")
}
