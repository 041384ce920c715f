package asynq_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
)

func TestGuarantee07WhatCannotBeRun(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	now := time.Now().Unix()
	garbage := func(s *site, id string, state wire.State) {
		s.redis.HSet(ctx, s.queue.Task(id), wire.FieldMessage, "\xff\xff no message", wire.FieldState, state.String(), wire.FieldPendingSince, time.Now().UnixNano())
	}
	for _, tc := range []struct {
		name  string
		plant func(s *site)
		// What becomes of the task "bad"; "": it is gone.
		state wire.State
		log   string
	}{
		{
			name: "an undecodable message in pending", state: wire.StateArchived, log: "cannot be read",
			plant: func(s *site) {
				garbage(s, "bad", wire.StatePending)
				s.redis.RPush(ctx, s.queue.Pending(), "bad")
			},
		},
		{
			name: "a message of another task in pending", state: wire.StateArchived, log: "cannot be read",
			plant: func(s *site) {
				s.enqueue("other", asynq.ProcessIn(time.Hour))
				msg := s.redis.HGet(ctx, s.queue.Task("other"), wire.FieldMessage).Val()
				s.redis.HSet(ctx, s.queue.Task("bad"), wire.FieldMessage, msg, wire.FieldState, "pending")
				s.redis.RPush(ctx, s.queue.Pending(), "bad")
			},
		},
		{
			name: "no hash for an ID in pending", log: "dropped",
			plant: func(s *site) { s.redis.RPush(ctx, s.queue.Pending(), "bad") },
		},
		{
			name: "no message in a hash in pending", state: wire.StateArchived,
			plant: func(s *site) {
				s.redis.HSet(ctx, s.queue.Task("bad"), wire.FieldState, "pending")
				s.redis.RPush(ctx, s.queue.Pending(), "bad")
			},
		},
		{
			name: "an undecodable message with an ended lease", state: wire.StateArchived, log: "cannot be read",
			plant: func(s *site) {
				garbage(s, "bad", wire.StateActive)
				s.redis.LPush(ctx, s.queue.Active(), "bad")
				s.redis.ZAdd(ctx, s.queue.Lease(), redis.Z{Score: float64(now - 60), Member: "bad"})
			},
		},
		{
			name: "no hash for an ID with an ended lease", log: "struck out",
			plant: func(s *site) {
				s.redis.LPush(ctx, s.queue.Active(), "bad")
				s.redis.ZAdd(ctx, s.queue.Lease(), redis.Z{Score: float64(now - 60), Member: "bad"})
			},
		},
		{
			name: "an undecodable message that is due", state: wire.StateArchived, log: "cannot be read",
			plant: func(s *site) {
				garbage(s, "bad", wire.StateScheduled)
				s.redis.ZAdd(ctx, s.queue.Scheduled(), redis.Z{Score: float64(now - 60), Member: "bad"})
			},
		},
		{
			name: "no hash for an ID that is due", log: "",
			plant: func(s *site) {
				s.redis.ZAdd(ctx, s.queue.Retry(), redis.Z{Score: float64(now - 60), Member: "bad"})
			},
		},
		{
			name: "no hash for an ID whose retention is over",
			plant: func(s *site) {
				s.redis.ZAdd(ctx, s.queue.Completed(), redis.Z{Score: float64(now - 60), Member: "bad"})
			},
		},
		{
			name: "no hash for an old ID in the archive",
			plant: func(s *site) {
				s.redis.ZAdd(ctx, s.queue.Archived(), redis.Z{Score: float64(now - 91*24*60*60), Member: "bad"})
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			everywhere(t, func(s *site) {
				s.AllowViolations() // a message that cannot be read is one, also in the archive
				tc.plant(s)
				// Others wait at the same places, behind it.
				s.enqueue("crashed")
				s.crashLongAgo("crashed")
				s.enqueue("pending")
				s.redis.ZAdd(ctx, s.queue.Scheduled(), redis.Z{Score: float64(now), Member: s.enqueue("due", asynq.ProcessIn(time.Hour)).ID})
				var ran tally
				srv := s.serve(asynq.Config{Concurrency: 1, LeaseDuration: time.Second}, ran.handle)
				s.eventually(func() bool { return ran.of("crashed")*ran.of("pending")*ran.of("due") == 1 }, "the others to run")
				want := ""
				if tc.state != 0 {
					want = tc.state.String()
				}
				s.eventually(func() bool {
					return s.state("bad") == want && (want != "") == (len(s.collections("bad")) == 1)
				}, "it to be set aside")
				if tc.log != "" && s.log.count(tc.log, "task=bad") != 1 {
					s.t.Errorf("it was logged %d times, want once", s.log.count(tc.log, "task=bad"))
				}
				if ran.of("bad") > 0 {
					s.t.Error("a handler got it")
				}
				srv.Shutdown()
				s.wantSoundBut("bad")
			})
		})
	}
}

// A task that cannot be read holds up no operation of the inspector, and can be moved and deleted like any other.
func TestGuarantee07InspectorOperations(t *testing.T) {
	everywhere(t, func(s *site) {
		s.AllowViolations() // a message that cannot be read is one
		ctx, i := context.Background(), s.inspector()
		for _, id := range []string{"bad", "none", "good"} {
			s.enqueue(id, asynq.ProcessIn(time.Hour), asynq.Unique(time.Hour))
		}
		s.redis.HSet(ctx, s.queue.Task("bad"), wire.FieldMessage, "\xff\xff no message")
		s.redis.HDel(ctx, s.queue.Task("none"), wire.FieldMessage)
		s.redis.ZAdd(ctx, s.queue.Scheduled(), redis.Z{Score: float64(time.Now().Unix()), Member: "nobody"})
		all := func(what string, want int, change func(string) (int, error)) {
			s.t.Helper()
			if n, err := change("default"); n != want || err != nil {
				s.t.Errorf("%s: %d tasks, error %v; want %d", what, n, err, want)
			}
		}
		all("run", 3, i.RunAllScheduledTasks)
		all("archive", 3, i.ArchiveAllPendingTasks)
		for _, id := range []string{"bad", "none", "good"} {
			for what, err := range map[string]error{
				"run": i.RunTask("default", id), "archive": i.ArchiveTask("default", id),
				"reschedule": i.Reschedule(ctx, "default", id, time.Now().Add(time.Hour)),
			} {
				if err != nil {
					s.t.Errorf("%s of %s: %v", what, id, err)
				}
			}
		}
		if err := i.UpdateTaskPayload("default", "bad", nil); err == nil {
			s.t.Error("the payload of what cannot be read was changed")
		}
		if err := i.DeleteTask("default", "bad"); err != nil {
			s.t.Error(err)
		}
		all("delete", 2, i.DeleteAllScheduledTasks)
		if err := i.DeleteQueue("default", false); err != nil {
			s.t.Error(err)
		}
		if left := s.keys("asynq:{default}:*"); len(left) > 0 {
			s.t.Errorf("left: %v", left)
		}
	})
}

// crashLongAgo makes a task look as a server of another library left it that crashed, and whose lease ended long ago.
func (s *site) crashLongAgo(id string) {
	s.t.Helper()
	ctx := context.Background()
	s.redis.LRem(ctx, s.queue.Pending(), 1, id)
	s.redis.LPush(ctx, s.queue.Active(), id)
	s.redis.ZAdd(ctx, s.queue.Lease(), redis.Z{Score: float64(time.Now().Unix() - 31), Member: id})
	s.redis.HSet(ctx, s.queue.Task(id), wire.FieldState, wire.StateActive.String())
	s.redis.HDel(ctx, s.queue.Task(id), wire.FieldPendingSince)
}

// wantSoundBut fails the test if an invariant is broken that is not about a task.
func (s *site) wantSoundBut(id string) {
	s.t.Helper()
	found, err := rdb.Check(context.Background(), s.redis, wire.DefaultNamespace)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, v := range found {
		if v.ID != id {
			s.t.Errorf("broken invariant: %v", v)
		}
	}
}
