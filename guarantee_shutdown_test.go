package asynq_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

func TestGuarantee13Shutdown(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	nothing := func(context.Context, *asynq.Task) error { return nil }
	t.Run("prompt when idle", func(t *testing.T) {
		everywhere(t, func(s *site) {
			srv := s.serve(asynq.Config{}, nothing)
			s.enqueue("t")
			s.awaitState("t", "") // and now it is idle
			start := time.Now()
			srv.Shutdown()
			if d := time.Since(start); d > time.Second {
				s.t.Errorf("it took %v", d)
			}
			if servers := s.keys("asynq:servers*"); len(servers) > 0 {
				s.t.Errorf("it left %v behind", servers)
			}
		})
	})
	t.Run("bounded when Redis is gone", func(t *testing.T) {
		everywhere(t, func(s *site) { shutdownWithoutRedis(s, false) })
	})
	t.Run("bounded when Redis is silent", func(t *testing.T) {
		everywhere(t, func(s *site) { shutdownWithoutRedis(s, true) })
	})
	t.Run("twice, at once and never started", func(t *testing.T) {
		everywhere(t, func(s *site) {
			srv := s.serve(asynq.Config{}, nothing)
			var all sync.WaitGroup
			for range 4 {
				all.Go(srv.Shutdown)
				all.Go(srv.Stop)
			}
			all.Wait()
			srv.Shutdown()
			if err := srv.Start(asynq.HandlerFunc(nothing)); !errors.Is(err, asynq.ErrServerClosed) {
				s.t.Errorf("Start after Shutdown: %v, want ErrServerClosed", err)
			}
			if err := srv.Ping(); !errors.Is(err, asynq.ErrServerClosed) {
				s.t.Errorf("Ping after Shutdown: %v, want ErrServerClosed", err)
			}
			never := asynq.NewServer(s.opt(), asynq.Config{})
			never.Stop()
			never.Shutdown()
			never.Shutdown()
			if err := never.Start(asynq.HandlerFunc(nothing)); !errors.Is(err, asynq.ErrServerClosed) {
				s.t.Errorf("Start after Shutdown: %v, want ErrServerClosed", err)
			}
		})
	})
	t.Run("right after the start", func(t *testing.T) {
		everywhere(t, func(s *site) {
			s.enqueueMany(50)
			for range 10 {
				s.serve(asynq.Config{}, nothing).Shutdown()
			}
			s.serve(asynq.Config{}, nothing)
			s.awaitEmpty()
			s.wantCounts(50, 0)
		})
	})
	t.Run("waits for handlers", func(t *testing.T) {
		everywhere(t, func(s *site) {
			started, proceed := make(chan struct{}), make(chan struct{})
			s.enqueue("t")
			s.enqueue("next")
			srv := s.serve(asynq.Config{Concurrency: 1}, func(context.Context, *asynq.Task) error {
				close(started)
				<-proceed
				return nil
			})
			receive(s, started, "the task to start")
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				srv.Shutdown()
			}()
			s.eventually(func() bool { return s.log.count("server shuts down") > 0 }, "the shutdown")
			close(proceed)
			receive(s, ended, "the shutdown to end")
			if s.state("t") != "" || s.state("next") != "pending" {
				s.t.Errorf("the task at work is %q, want it done, and the next %q, want it pending", s.state("t"), s.state("next"))
			}
			s.wantCounts(1, 0)
		})
	})
	t.Run("unfinished tasks go back to the front", func(t *testing.T) {
		everywhere(t, func(s *site) {
			h := newHeld()
			s.enqueueMany(5)
			srv := s.serve(asynq.Config{Concurrency: 2, ShutdownTimeout: 50 * time.Millisecond}, h.handle)
			first := []string{receive(s, h.started, "a task"), receive(s, h.started, "another")}
			start := time.Now()
			srv.Shutdown()
			if d := time.Since(start); d > 2*time.Second {
				s.t.Errorf("it took %v, with a ShutdownTimeout of 50 ms", d)
			}
			for range 2 {
				if cause := receive(s, h.causes, "the handlers to be canceled"); !errors.Is(cause, asynq.ErrServerClosed) {
					s.t.Errorf("canceled with cause %v, want ErrServerClosed", cause)
				}
			}
			pending := s.redis.LRange(ctx, s.queue.Pending(), 0, -1).Val()
			slices.Reverse(pending) // the next one first
			front := slices.Sorted(slices.Values(pending[:2]))
			if !slices.Equal(front, slices.Sorted(slices.Values(first))) || !slices.Equal(pending[2:], []string{"t2", "t3", "t4"}) {
				s.t.Errorf("in pending are %v, want the unfinished %v first", pending, first)
			}
			for _, id := range first {
				if m := s.message(id); m.Retried != 0 || m.LastErr != "" {
					s.t.Errorf("%s has been retried %d times, and its last error is %q", id, m.Retried, m.LastErr)
				}
			}
			s.wantCounts(0, 0)
			s.sound("after the shutdown")
			close(h.proceed) // what the handlers return now changes nothing
			var ran tally
			s.serve(asynq.Config{}, ran.handle)
			s.awaitEmpty()
			s.wantCounts(5, 0)
		})
	})
	t.Run("Stop takes no new tasks", func(t *testing.T) {
		everywhere(t, func(s *site) {
			var ran tally
			srv := s.serve(asynq.Config{TaskCheckInterval: 10 * time.Millisecond}, ran.handle)
			s.enqueue("before")
			s.awaitState("before", "")
			srv.Stop()
			s.enqueue("after")
			srv.Shutdown()
			if ran.of("after") > 0 || s.state("after") != "pending" {
				s.t.Errorf("a task ran after Stop, or is %q", s.state("after"))
			}
		})
	})
}

// shutdownWithoutRedis shuts a server down whose tasks cannot be settled.
func shutdownWithoutRedis(s *site, silent bool) {
	p, opt := s.proxy()
	h := newHeld()
	close(h.proceed)
	s.enqueueMany(3)
	srv := s.serveOn(opt, asynq.Config{Concurrency: 2, LeaseDuration: time.Second, ShutdownTimeout: 500 * time.Millisecond}, h.handle)
	receive(s, h.started, "a task to start")
	receive(s, h.started, "another to start")
	if silent {
		p.Blackhole()
	} else {
		p.Down()
	}
	start := time.Now()
	srv.Shutdown()
	if d := time.Since(start); d > 15*time.Second {
		s.t.Errorf("it took %v", d)
	}
	p.Resume()
	var ran tally
	s.serve(asynq.Config{LeaseDuration: time.Second}, ran.handle)
	s.awaitEmpty()
	if ran.of("t2") == 0 { // what was sent into the silence may have settled the others
		s.t.Error("a task was lost")
	}
}
