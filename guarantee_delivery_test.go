package asynq_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/wire"
)

func TestGuarantee01AtLeastOnce(t *testing.T) {
	t.Parallel()
	t.Run("whatever process dies", func(t *testing.T) {
		everywhere(t, func(s *site) {
			s.enqueueMany(15)
			p := s.startCrashable()
			p.awaitTasks(s, 10)
			p.kill()
			ran := s.crashRecovery()
			if n := ran.different(); n != 15 {
				s.t.Errorf("%d tasks ran, want 15", n)
			}
		})
	})
	t.Run("whatever connection dies", func(t *testing.T) { everywhere(t, deliverThroughCuts) })
	t.Run("after an outage", func(t *testing.T) { everywhere(t, deliverAfterOutage) })
	t.Run("after a crash of Redis", func(t *testing.T) {
		t.Parallel()
		deliverAfterRedisCrash(t)
	})
	t.Run("when the scripts are flushed", func(t *testing.T) {
		everywhere(t, func(s *site) {
			var ran tally
			s.serve(asynq.Config{Concurrency: 1}, func(ctx context.Context, task *asynq.Task) error {
				ran.add(task.Type())
				return s.redis.ScriptFlush(ctx).Err()
			})
			for i := range 10 {
				s.redis.ScriptFlush(context.Background())
				s.enqueue(fmt.Sprint("t", i), asynq.Unique(time.Minute))
			}
			s.awaitEmpty()
			s.wantCounts(10, 0)
		})
	})
}

// deliverThroughCuts cuts all connections again and again while tasks are enqueued and processed.
func deliverThroughCuts(s *site) {
	p, opt := s.proxy()
	client := s.clientOn(opt)
	var ran tally
	handler := func(_ context.Context, task *asynq.Task) error {
		if ran.add(task.Type()); ran.different()%4 == 0 {
			p.Cut()
		}
		return nil
	}
	s.serveOn(opt, asynq.Config{Concurrency: 5, LeaseDuration: time.Second}, handler)
	s.serveOn(opt, asynq.Config{Concurrency: 5, LeaseDuration: time.Second}, handler)
	const n = 60
	for i := range n {
		id := fmt.Sprint("t", i)
		if i%3 == 0 {
			go p.Cut() // at any moment of the call
		}
		s.eventually(func() bool {
			_, err := client.Enqueue(asynq.NewTask(id, nil), asynq.TaskID(id))
			// A conflict: a call before failed, and could not know that it had made the task.
			return err == nil || errors.Is(err, asynq.ErrTaskIDConflict)
		}, "task %s to be accepted", id)
	}
	s.eventually(func() bool { return ran.different() == n }, "all tasks to run")
	s.awaitEmpty()
}

// deliverAfterOutage has tasks in every stage of their life when Redis goes away for longer than their leases.
func deliverAfterOutage(s *site) {
	p, opt := s.proxy()
	var ran tally
	started, proceed := make(chan string, 10), make(chan struct{})
	s.enqueueMany(10)
	s.enqueue("delayed", asynq.ProcessIn(time.Second))
	s.serveOn(opt, asynq.Config{Concurrency: 5, LeaseDuration: time.Second}, func(_ context.Context, task *asynq.Task) error {
		ran.add(task.Type())
		select {
		case started <- task.Type():
		default:
		}
		<-proceed
		return nil
	})
	for range 5 {
		receive(s, started, "five tasks to start")
	}
	p.Down()
	close(proceed)
	for late := time.After(1500 * time.Millisecond); late != nil; {
		<-late // the outage itself is the subject: leases end in it
		late = nil
	}
	p.Resume()
	s.awaitEmpty()
	if n := ran.different(); n != 11 {
		s.t.Errorf("%d tasks ran, want 11", n)
	}
}

// deliverAfterRedisCrash kills a Redis that writes each command to disk, as its tasks run.
func deliverAfterRedisCrash(t *testing.T) {
	s, server := onServer(t, "--appendonly", "yes", "--appendfsync", "always")
	s.enqueueMany(50, asynq.Retention(time.Hour))
	var ran tally
	killed := make(chan struct{})
	s.serve(asynq.Config{Concurrency: 4, LeaseDuration: time.Second}, func(_ context.Context, task *asynq.Task) error {
		ran.add(task.Type())
		if ran.different() > 20 {
			<-killed
		}
		return nil
	})
	s.eventually(func() bool { return ran.different() > 20 }, "the tasks to run")
	server.Kill()
	close(killed)
	server.Restart(t)
	s.eventually(func() bool {
		return s.redis.ZCard(context.Background(), s.queue.Completed()).Val() == 50
	}, "all tasks to complete")
	s.sound("after a crash of Redis")
}

func TestGuarantee03FinishedTaskIsNotRunAgain(t *testing.T) {
	t.Parallel()
	swallow := func(p *redistest.Proxy) *redistest.Fault { return p.SwallowReplies(2, "evalsha", "the-task") }
	lose := func(p *redistest.Proxy) *redistest.Fault { return p.LoseCommands(2, "evalsha", "the-task") }
	for _, tc := range []struct {
		name  string
		fault func(p *redistest.Proxy) *redistest.Fault // to the settlement
		err   error
		state wire.State // 0: gone
		opts  []asynq.Option
	}{
		{name: "done and reply lost", fault: swallow},
		{name: "done and command lost", fault: lose},
		{name: "completed and reply lost", fault: swallow, state: wire.StateCompleted, opts: []asynq.Option{asynq.Retention(time.Hour)}},
		{name: "failed and reply lost", fault: swallow, err: errors.New("failed"), state: wire.StateRetry},
		{name: "failed and command lost", fault: lose, err: errors.New("failed"), state: wire.StateRetry},
		{name: "archived and reply lost", fault: swallow, err: asynq.SkipRetry, state: wire.StateArchived},
	} {
		t.Run(tc.name, func(t *testing.T) {
			everywhere(t, func(s *site) {
				p, opt := s.proxy()
				var ran tally
				faults := make(chan *redistest.Fault, 10)
				s.enqueue("the-task", tc.opts...)
				srv := s.serveOn(opt, asynq.Config{Concurrency: 1}, func(_ context.Context, task *asynq.Task) error {
					ran.add(task.Type())
					if task.Type() != "the-task" {
						return nil
					}
					faults <- tc.fault(p)
					return tc.err
				})
				receive(s, receive(s, faults, "the task to run").Done(), "the fault")
				s.enqueue("next")
				s.awaitState("next", "")
				srv.Shutdown()
				want := ""
				failed := int64(0)
				if tc.state != 0 {
					want = tc.state.String()
				}
				if tc.err != nil {
					failed = 1
				}
				if got := s.state("the-task"); got != want {
					s.t.Errorf("it is in state %q, want %q", got, want)
				}
				if n := ran.of("the-task"); n != 1 {
					s.t.Errorf("it ran %d times, want once", n)
				}
				s.wantCounts(2, failed)
				if tc.state == wire.StateRetry && s.message("the-task").Retried != 1 {
					s.t.Errorf("one failed attempt is counted %d times", s.message("the-task").Retried)
				}
			})
		})
	}
	t.Run("fetched and reply lost", func(t *testing.T) {
		everywhere(t, func(s *site) {
			p, opt := s.proxy()
			var ran tally
			f := p.SwallowReplies(2, "evalsha", s.queue.Active(), s.queue.Pending())
			s.enqueueMany(20)
			s.serveOn(opt, asynq.Config{Concurrency: 5}, ran.handle)
			receive(s, f.Done(), "the fault")
			s.awaitEmpty()
			if n := len(ran.order()); n != 20 {
				s.t.Errorf("20 tasks ran %d times", n)
			}
			s.wantCounts(20, 0)
		})
	})
	t.Run("no answer for a while, shorter than the lease", func(t *testing.T) {
		everywhere(t, func(s *site) {
			p, opt := s.proxy()
			var ran tally
			s.enqueueMany(10)
			s.serveOn(opt, asynq.Config{Concurrency: 3}, func(_ context.Context, task *asynq.Task) error {
				if ran.add(task.Type()); ran.different() == 5 {
					p.Blackhole()
					time.AfterFunc(500*time.Millisecond, p.Resume)
				}
				return nil
			})
			s.awaitEmpty()
			if n := len(ran.order()); n != 10 {
				s.t.Errorf("10 tasks ran %d times", n)
			}
			s.wantCounts(10, 0)
		})
	})
}
