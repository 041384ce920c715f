package asynq_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/wire"
)

func TestSchedulerPublishes(t *testing.T) {
	everywhere(t, func(s *site) {
		sched := s.scheduler(s.opt(), asynq.SchedulerOpts{HeartbeatInterval: 50 * time.Millisecond})
		task := asynq.NewTaskWithHeaders("report", []byte{}, map[string]string{"h": "1"}, asynq.Queue("low"))
		at := time.Now().Add(time.Hour).Round(0)
		id, err := sched.Register("@daily", task, asynq.Deadline(at), asynq.Header("k", "v"))
		if err != nil {
			t.Fatal(err)
		}
		fastID := s.registerFast(sched, asynq.NewTask("fast", nil))
		if got := s.entries(); len(got) != 0 {
			t.Errorf("a scheduler that was not started publishes %v", got)
		}
		s.start(sched)
		s.eventually(func() bool { return len(s.entries()) == 2 }, "the entries")
		e := s.entries()[0]
		midnight := time.Now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
		if e.ID != id || e.Spec != "@daily" || e.Task.Type() != "report" || e.Task.Payload() == nil || e.Task.Headers()["h"] != "1" ||
			!e.Next.Equal(midnight) || !e.Prev.IsZero() {
			t.Errorf("published %+v", e)
		}
		if len(e.Opts) != 3 || e.Opts[0].Value() != "low" || !e.Opts[1].Value().(time.Time).Equal(at) {
			t.Errorf("options %v", e.Opts)
		}
		s.eventually(func() bool { prev := s.entries()[1].Prev; return !prev.IsZero() && !prev.After(time.Now()) }, "a tick to be told of")

		// What other libraries read.
		list := s.redis.LRange(context.Background(), s.keys("asynq:schedulers:*}")[0], 0, -1).Val()
		other, err := wire.DecodeSchedulerEntry([]byte(list[0]))
		if err != nil || !slices.Equal(other.EnqueueOptions, []string{`Queue("low")`, asynq.Deadline(at).String(), `Header("k", "v")`}) {
			t.Errorf("others read %+v, error %v", other, err)
		}

		if err := sched.Unregister(id); err != nil {
			t.Fatal(err)
		}
		s.eventually(func() bool { e := s.entries(); return len(e) == 1 && e[0].ID == fastID }, "the entry to go")
		sched.Shutdown()
		if got := s.entries(); len(got) != 0 || len(s.keys("asynq:schedulers*")) != 0 {
			t.Errorf("after the shutdown there are %v and %v", got, s.keys("asynq:schedulers*"))
		}
	})
}

func TestRunSchedulerEntry(t *testing.T) {
	everywhere(t, func(s *site) {
		ctx := context.Background()
		sched := s.scheduler(s.opt(), asynq.SchedulerOpts{})
		task := asynq.NewTaskWithHeaders("report", []byte{}, map[string]string{"h": "1"}, asynq.MaxRetry(3))
		id, err := sched.Register("@yearly", task, asynq.Unique(time.Hour), asynq.Header("k", "v"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.inspector().RunSchedulerEntry(ctx, id); !errors.Is(err, asynq.ErrSchedulerEntryNotFound) {
			t.Errorf("before the start: %v", err)
		}
		s.start(sched)
		s.eventually(func() bool { return len(s.entries()) == 1 }, "the entry")
		info, err := s.inspector().RunSchedulerEntry(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		if info.Type != "report" || info.Payload == nil || info.MaxRetry != 3 || len(info.Headers) != 2 {
			t.Errorf("enqueued %+v", info)
		}
		if events := s.history(id); len(events) != 1 || events[0].TaskID != info.ID {
			t.Errorf("the history is %v", events)
		}
		if _, err := s.inspector().RunSchedulerEntry(ctx, id); !errors.Is(err, asynq.ErrDuplicateTask) {
			t.Errorf("again: %v", err)
		}

		// An entry that a scheduler of another library published.
		other := wire.Process{Host: "h", PID: 1, ID: "other"}
		entry := &wire.SchedulerEntry{ID: "o", Spec: "@daily", TaskType: "old", Payload: []byte("p"), EnqueueOptions: []string{`Queue("low")`, "New(1)", "MaxRetry(2)"}}
		encoded, err := entry.Encode()
		if err != nil {
			t.Fatal(err)
		}
		list := wire.DefaultNamespace.Scheduler(other)
		s.redis.RPush(ctx, list, "\xff", encoded)
		s.redis.Expire(ctx, list, time.Minute)
		s.redis.Do(ctx, "zadd", wire.DefaultNamespace.Schedulers(), time.Now().Add(time.Minute).Unix(), list)
		info, err = s.inspector().RunSchedulerEntry(ctx, "o")
		if err != nil || info.Queue != "low" || info.MaxRetry != 2 || string(info.Payload) != "p" {
			t.Errorf("enqueued %+v, error %v", info, err)
		}
		if got := s.entries(); len(got) != 2 {
			t.Errorf("%d entries", len(got))
		}
	})
}

func TestListSchedulerEnqueueEventsPages(t *testing.T) {
	everywhere(t, func(s *site) {
		sched := s.scheduler(s.opt(), asynq.SchedulerOpts{})
		id := s.registerFast(sched, asynq.NewTask("x", nil))
		s.start(sched)
		s.eventually(func() bool { return len(s.history(id)) >= 5 }, "five ticks")
		sched.Shutdown()
		all := s.history(id)
		for _, tt := range []struct {
			opts []asynq.ListOption
			want []*asynq.SchedulerEnqueueEvent
		}{
			{nil, all[:min(30, len(all))]},
			{[]asynq.ListOption{asynq.PageSize(2)}, all[:2]},
			{[]asynq.ListOption{asynq.PageSize(2), asynq.Page(2)}, all[2:4]},
			{[]asynq.ListOption{asynq.PageSize(2), asynq.Page(-1)}, all[:2]},
			{[]asynq.ListOption{asynq.PageSize(-1)}, nil},
		} {
			got, err := s.inspector().ListSchedulerEnqueueEvents(id, tt.opts...)
			if err != nil || len(got) != len(tt.want) {
				t.Fatalf("%v: %d events, error %v; want %d", tt.opts, len(got), err, len(tt.want))
			}
			for i := range got {
				if *got[i] != *tt.want[i] {
					t.Errorf("%v: event %d is %v, want %v", tt.opts, i, got[i], tt.want[i])
				}
			}
		}
		for i, event := range all[1:] {
			if event.EnqueuedAt.After(all[i].EnqueuedAt) {
				t.Errorf("event %d is newer than the one before", i+1)
			}
		}
	})
}
