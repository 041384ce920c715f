package asynq_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/redistest"
)

func TestGuarantee04LostReplyIsNoConflict(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		opts []asynq.Option
		want error // of the same call again
	}{
		{name: "with a task ID", opts: []asynq.Option{asynq.TaskID("chosen")}, want: asynq.ErrTaskIDConflict},
		{name: "unique", opts: []asynq.Option{asynq.Unique(time.Minute)}, want: asynq.ErrDuplicateTask},
		{name: "delayed and unique", opts: []asynq.Option{asynq.ProcessIn(time.Hour), asynq.Unique(time.Minute)}, want: asynq.ErrDuplicateTask},
		{name: "with a task ID and unique", opts: []asynq.Option{asynq.TaskID("chosen"), asynq.Unique(time.Minute)}},
		{name: "grouped, with a task ID", opts: []asynq.Option{asynq.Group("g"), asynq.TaskID("chosen")}, want: asynq.ErrTaskIDConflict},
		{name: "with neither"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			everywhere(t, func(s *site) {
				p, opt := s.proxy()
				client := s.clientOn(opt)
				f := p.SwallowReplies(2, "evalsha", "the payload")
				task := asynq.NewTask("test", []byte("the payload"), tc.opts...)
				info, err := client.Enqueue(task)
				if err != nil {
					s.t.Fatalf("enqueued, with two replies lost: %v", err)
				}
				receive(s, f.Done(), "the fault")
				if s.state(info.ID) != info.State.String() {
					s.t.Errorf("it is in state %q, want %v", s.state(info.ID), info.State)
				}
				if n := len(s.keys(s.queue.TaskPrefix() + "*")); n != 1 {
					s.t.Errorf("there are %d tasks, want 1", n)
				}
				if tc.want == nil {
					return
				}
				if _, err := client.Enqueue(task); !errors.Is(err, tc.want) {
					s.t.Errorf("enqueued again: %v, want %v", err, tc.want)
				}
			})
		})
	}
	t.Run("a batch", func(t *testing.T) { everywhere(t, batchWithLostReplies) })
	t.Run("a task that ran before the call was repeated", func(t *testing.T) { everywhere(t, ranBeforeRepeat) })
	t.Run("an answer that never comes is said to be unknown", func(t *testing.T) {
		everywhere(t, func(s *site) {
			p, opt := s.proxy()
			client := s.clientOn(opt)
			if err := client.Ping(); err != nil {
				s.t.Fatal(err)
			}
			p.Blackhole()
			defer p.Resume()
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer cancel()
			_, err := client.EnqueueContext(ctx, asynq.NewTask("test", nil))
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "may or may not be enqueued") {
				s.t.Errorf("without an answer: %v", err)
			}
			if _, err = client.EnqueueContext(ctx, asynq.NewTask("test", nil)); !errors.Is(err, context.DeadlineExceeded) {
				s.t.Errorf("with a context that has ended: %v", err)
			}
		})
	})
}

func batchWithLostReplies(s *site) {
	p, opt := s.proxy()
	client := s.clientOn(opt)
	s.enqueue("t7")
	s.enqueue("holder", asynq.Unique(time.Minute))
	tasks := make([]*asynq.Task, 0, 1001)
	for i := range 1000 {
		task := asynq.NewTask("test", []byte(fmt.Sprint("payload", i)), asynq.TaskID(fmt.Sprint("t", i)), asynq.Unique(time.Minute))
		tasks = append(tasks, task)
	}
	tasks = append(tasks, asynq.NewTask("holder", nil, asynq.Unique(time.Minute)))
	f := p.SwallowReplies(2, "evalsha", "payload999")
	for i, r := range client.BatchEnqueueContext(context.Background(), tasks) {
		switch want := map[int]error{7: asynq.ErrTaskIDConflict, 1000: asynq.ErrDuplicateTask}[i]; {
		case !errors.Is(r.Err, want):
			s.t.Errorf("task %d of the batch: %v, want %v", i, r.Err, want)
		case want == nil && s.state(r.TaskInfo.ID) != "pending":
			s.t.Errorf("task %d of the batch is in state %q", i, s.state(r.TaskInfo.ID))
		}
	}
	receive(s, f.Done(), "the fault")
	if n := len(s.keys(s.queue.TaskPrefix() + "*")); n != 1001 {
		s.t.Errorf("there are %d tasks, want 1001", n)
	}
}

// ranBeforeRepeat has a server take the task before the enqueue call that made it is repeated.
func ranBeforeRepeat(s *site) {
	p, opt := s.proxy()
	client := s.clientOn(opt)
	started, proceed := make(chan struct{}, 10), make(chan struct{})
	s.serve(asynq.Config{}, func(context.Context, *asynq.Task) error {
		started <- struct{}{}
		<-proceed
		return nil
	})
	f := p.SwallowReplies(1, "evalsha", "chosen")
	p.Delay(20 * time.Millisecond)
	if _, err := client.Enqueue(asynq.NewTask("chosen", nil), asynq.TaskID("chosen"), asynq.Unique(time.Minute)); err != nil {
		s.t.Errorf("enqueued, with a reply lost: %v", err)
	}
	receive(s, f.Done(), "the fault")
	receive(s, started, "the task to start")
	close(proceed)
	s.awaitState("chosen", "")
	if len(started) > 0 {
		s.t.Error("the task ran twice")
	}
}

func TestGuarantee17FullRedis(t *testing.T) {
	t.Parallel()
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		s := newMiniSite(t)
		p, opt := s.proxy()
		client := s.clientOn(opt)
		if _, err := client.Enqueue(asynq.NewTask("test", nil)); err != nil {
			s.t.Fatal(err)
		}
		p.Answer(1, "-OOM command not allowed when used memory > 'maxmemory'.\r\n", "evalsha", "refused")
		wantRefused(s, client, "refused")
		if s.state("refused") != "" {
			s.t.Error("a refused task exists")
		}
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		s, _ := onServer(t, "--maxmemory-policy", "noeviction")
		drainFullRedis(s)
	})
}

// newMiniSite is a site on miniredis alone, for what needs another test on a real server.
func newMiniSite(t *testing.T) *site {
	t.Helper()
	r := redistest.Mini(t)
	return newSite(t, r, r.Client())
}

func wantRefused(s *site, client *asynq.Client, id string) {
	s.t.Helper()
	if _, err := client.Enqueue(asynq.NewTask(id, nil), asynq.TaskID(id)); !errors.Is(err, asynq.ErrRedisFull) {
		s.t.Errorf("enqueued into a full Redis: %v, want ErrRedisFull", err)
	}
}

// drainFullRedis has a server process tasks with all outcomes while Redis has less memory than it uses.
func drainFullRedis(s *site) {
	ctx := context.Background()
	s.enqueueMany(100)
	for i := range 20 {
		s.enqueue(fmt.Sprint("unique", i), asynq.Unique(time.Hour))
		s.enqueue(fmt.Sprint("completed", i), asynq.Retention(time.Hour))
		s.enqueue(fmt.Sprint("retried", i))
		s.enqueue(fmt.Sprint("archived", i))
		s.enqueue(fmt.Sprint("delayed", i), asynq.ProcessIn(time.Second))
	}
	if err := s.redis.ConfigSet(ctx, "maxmemory", "1").Err(); err != nil {
		s.t.Fatal(err)
	}
	wantRefused(s, s.client, "refused")
	batch := []*asynq.Task{asynq.NewTask("a", nil), asynq.NewTask("b", nil, asynq.Unique(time.Hour)), asynq.NewTask("c", nil, asynq.ProcessIn(time.Hour))}
	for i, r := range s.client.BatchEnqueueContext(ctx, batch) {
		if !errors.Is(r.Err, asynq.ErrRedisFull) {
			s.t.Errorf("task %d of a batch: %v, want ErrRedisFull", i, r.Err)
		}
	}
	var ran tally
	srv := s.serve(asynq.Config{
		Concurrency: 10, RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return 0 },
	}, func(_ context.Context, task *asynq.Task) error {
		n := ran.add(task.Type())
		switch {
		case strings.HasPrefix(task.Type(), "retried") && n == 1:
			return errors.New("failed")
		case strings.HasPrefix(task.Type(), "archived"):
			return asynq.SkipRetry
		}
		return nil
	})
	s.eventually(func() bool {
		return s.redis.ZCard(ctx, s.queue.Completed()).Val() == 20 && s.redis.ZCard(ctx, s.queue.Archived()).Val() == 20 &&
			len(s.keys(s.queue.TaskPrefix()+"*")) == 40
	}, "a full Redis to drain")
	srv.Shutdown()
	if n := len(ran.order()); n != 220 {
		s.t.Errorf("200 tasks, of which 20 failed once, ran %d times, want 220", n)
	}
	s.wantCounts(220, 40)
	s.sound("in a full Redis")
	wantRefused(s, s.client, "refused")
	if err := s.redis.ConfigSet(ctx, "maxmemory", "0").Err(); err != nil {
		s.t.Fatal(err)
	}
	s.enqueue("refused")
}
