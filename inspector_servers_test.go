package asynq_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/testenv"
	"github.com/asynq-go/asynq/internal/wire"
)

func TestSchedulerPublishes(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		sched := newScheduler(env, env.Opt(), asynq.SchedulerOpts{HeartbeatInterval: 50 * time.Millisecond})
		task := asynq.NewTaskWithHeaders("report", []byte{}, map[string]string{"h": "1"}, asynq.Queue("low"))
		at := time.Now().Add(time.Hour).Round(0)
		id, err := sched.Register("@daily", task, asynq.Deadline(at), asynq.Header("k", "v"))
		if err != nil {
			t.Fatal(err)
		}
		fastID := registerFast(env, sched, asynq.NewTask("fast", nil))
		if got := schedulerEntries(env); len(got) != 0 {
			t.Errorf("a scheduler published before Start: %v", got)
		}
		startScheduler(env, sched)
		// On a busy machine, entries expire between two heartbeats, so they are read until they
		// exist.
		var entries []*asynq.SchedulerEntry
		env.Eventually(func() bool { entries = schedulerEntries(env); return len(entries) == 2 }, "the entries")
		e := entries[0]
		midnight := time.Now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
		if e.ID != id || e.Spec != "@daily" || e.Task.Type() != "report" || e.Task.Payload() == nil || e.Task.Headers()["h"] != "1" ||
			!e.Next.Equal(midnight) || !e.Prev.IsZero() {
			t.Errorf("published %+v", e)
		}
		if len(e.Opts) != 3 || e.Opts[0].Value() != "low" || !e.Opts[1].Value().(time.Time).Equal(at) {
			t.Errorf("options %v", e.Opts)
		}
		env.Eventually(func() bool {
			entries = schedulerEntries(env)
			return len(entries) == 2 && !entries[1].Prev.IsZero() && !entries[1].Prev.After(time.Now())
		}, "a tick to be published")

		// The reference library reads this.
		var list []string
		env.Eventually(func() bool {
			if keys := env.Keys("asynq:schedulers:*}"); len(keys) > 0 {
				list = env.RDB.LRange(context.Background(), keys[0], 0, -1).Val()
			}
			return len(list) > 0
		}, "the stored entries")
		other, err := wire.DecodeSchedulerEntry([]byte(list[0]))
		if err != nil || !slices.Equal(other.EnqueueOptions, []string{`Queue("low")`, asynq.Deadline(at).String(), `Header("k", "v")`}) {
			t.Errorf("stored entry %+v, error %v", other, err)
		}

		if err := sched.Unregister(id); err != nil {
			t.Fatal(err)
		}
		env.Eventually(func() bool { e := schedulerEntries(env); return len(e) == 1 && e[0].ID == fastID }, "the entry to be removed")
		sched.Shutdown()
		if got := schedulerEntries(env); len(got) != 0 || len(env.Keys("asynq:schedulers*")) != 0 {
			t.Errorf("after Shutdown: entries %v, keys %v", got, env.Keys("asynq:schedulers*"))
		}
	})
}

// Entries of the reference library can lack an ID.
func TestEntriesWithoutID(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx := context.Background()
		var published []rdb.ScheduleEntry
		for _, id := range []string{"", "", "one", "one"} {
			entry := wire.SchedulerEntry{ID: id, Spec: "@daily", TaskType: "t"}
			encoded, err := entry.Encode()
			if err != nil {
				t.Fatal(err)
			}
			published = append(published, rdb.ScheduleEntry{ID: id, Entry: encoded})
		}
		scheduler := wire.Process{Host: "h", PID: 1, ID: "x"}
		if err := rdb.New(env.RDB, wire.DefaultNamespace).PublishEntries(ctx, scheduler, published, time.Minute); err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, e := range schedulerEntries(env) {
			ids = append(ids, e.ID)
		}
		if slices.Sort(ids); !slices.Equal(ids, []string{"", "", "one"}) {
			t.Errorf("entries with the IDs %q", ids)
		}
		if _, err := env.Inspector().RunSchedulerEntry(ctx, ""); !errors.Is(err, asynq.ErrSchedulerEntryNotFound) {
			t.Errorf("run the entry without an ID: %v", err)
		}
	})
}

func TestRunSchedulerEntry(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx := context.Background()
		sched := newScheduler(env, env.Opt(), asynq.SchedulerOpts{})
		task := asynq.NewTaskWithHeaders("report", []byte{}, map[string]string{"h": "1"}, asynq.MaxRetry(3))
		id, err := sched.Register("@yearly", task, asynq.Unique(time.Hour), asynq.Header("k", "v"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := env.Inspector().RunSchedulerEntry(ctx, id); !errors.Is(err, asynq.ErrSchedulerEntryNotFound) {
			t.Errorf("before Start: %v", err)
		}
		startScheduler(env, sched)
		env.Eventually(func() bool { return len(schedulerEntries(env)) == 1 }, "the entry")
		info, err := env.Inspector().RunSchedulerEntry(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		if info.Type != "report" || info.Payload == nil || info.MaxRetry != 3 || len(info.Headers) != 2 {
			t.Errorf("enqueued %+v", info)
		}
		if events := enqueueEvents(env, id); len(events) != 1 || events[0].TaskID != info.ID {
			t.Errorf("events %v", events)
		}
		if _, err := env.Inspector().RunSchedulerEntry(ctx, id); !errors.Is(err, asynq.ErrDuplicateTask) {
			t.Errorf("second run: %v", err)
		}

		// An entry that the reference library published.
		other := wire.Process{Host: "h", PID: 1, ID: "other"}
		entry := &wire.SchedulerEntry{ID: "o", Spec: "@daily", TaskType: "old", Payload: []byte("p"), EnqueueOptions: []string{`Queue("low")`, "New(1)", "MaxRetry(2)"}}
		encoded, err := entry.Encode()
		if err != nil {
			t.Fatal(err)
		}
		list := wire.DefaultNamespace.Scheduler(other)
		env.RDB.RPush(ctx, list, "\xff", encoded)
		env.RDB.Expire(ctx, list, time.Minute)
		env.RDB.Do(ctx, "zadd", wire.DefaultNamespace.Schedulers(), time.Now().Add(time.Minute).Unix(), list)
		info, err = env.Inspector().RunSchedulerEntry(ctx, "o")
		if err != nil || info.Queue != "low" || info.MaxRetry != 2 || string(info.Payload) != "p" {
			t.Errorf("enqueued %+v, error %v", info, err)
		}
		if got := schedulerEntries(env); len(got) != 2 {
			t.Errorf("%d entries, want 2", len(got))
		}
	})
}

func TestListSchedulerEnqueueEventsPages(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		sched := newScheduler(env, env.Opt(), asynq.SchedulerOpts{})
		id := registerFast(env, sched, asynq.NewTask("x", nil))
		startScheduler(env, sched)
		env.Eventually(func() bool { return len(enqueueEvents(env, id)) >= 5 }, "five ticks")
		sched.Shutdown()
		all := enqueueEvents(env, id)
		for _, tt := range []struct {
			opts []asynq.ListOption
			want []*asynq.SchedulerEnqueueEvent
		}{
			{nil, all[:min(30, len(all))]},
			{[]asynq.ListOption{asynq.PageSize(2)}, all[:2]},
			{[]asynq.ListOption{asynq.PageSize(2), asynq.Page(2)}, all[2:4]},
			{[]asynq.ListOption{asynq.PageSize(2), asynq.Page(-1)}, all[:2]},
			{[]asynq.ListOption{asynq.PageSize(-1)}, all},
		} {
			got, err := env.Inspector().ListSchedulerEnqueueEvents(id, tt.opts...)
			if err != nil || len(got) != len(tt.want) {
				env.T.Fatalf("%v: %d events, error %v; want %d", tt.opts, len(got), err, len(tt.want))
			}
			for i := range got {
				if *got[i] != *tt.want[i] {
					t.Errorf("%v: event %d is %v, want %v", tt.opts, i, got[i], tt.want[i])
				}
			}
		}
		for i, event := range all[1:] {
			if event.EnqueuedAt.After(all[i].EnqueuedAt) {
				t.Errorf("event %d is newer than the previous one", i+1)
			}
		}
	})
}

// The records of schedulers can be deleted after their shutdown, and not before.
func TestDeleteSchedulerRecords(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx, i := context.Background(), env.Inspector()
		sched, entry := newMember(env, env.Opt(), asynq.SchedulerOpts{})
		startScheduler(env, sched)
		awaitLeader(env, sched)
		env.Eventually(func() bool { return len(enqueueEvents(env, entry)) > 0 }, "an event in the history")
		if err := i.DeleteSchedulerGroup(ctx, "g"); err == nil || !strings.Contains(err.Error(), "a scheduler leads the group") {
			env.T.Errorf("a group with a leader: %v", err)
		}
		sched.Shutdown()
		if len(enqueueEvents(env, entry)) == 0 || len(env.Keys("asynq:scheduler_groups:*")) != 1 {
			env.T.Error("records were deleted although the group had a leader")
		}
		if err := i.DeleteSchedulerHistory(ctx, "another"); err != nil || len(enqueueEvents(env, entry)) == 0 {
			env.T.Errorf("another entry: %v", err)
		}
		for range 2 {
			if err := errors.Join(i.DeleteSchedulerGroup(ctx, "g"), i.DeleteSchedulerHistory(ctx, entry)); err != nil {
				env.T.Error(err)
			}
		}
		if left := env.Keys("asynq:sched*"); len(left) != 0 {
			env.T.Errorf("keys left: %q", left)
		}
	})
}
