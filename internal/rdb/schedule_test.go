package rdb_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

const groupLease = 6 * time.Second

// lead requests the leadership of group g.
func lead(t *testing.T, b *rdb.Broker, process string, lease time.Duration) rdb.Leadership {
	t.Helper()
	l, err := b.AcquireLeadership(context.Background(), "g", process, lease)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestAcquireLeadership(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		b := r.Broker()
		first := lead(t, b, "a", groupLease)
		if !first.Leads || first.Vacant >= 0 || first.Began != first.Now || first.Until != first.Now+groupLease.Milliseconds() {
			t.Errorf("the first one gets %+v", first)
		}
		if l := lead(t, b, "b", groupLease); l.Leads || l.Until != first.Until || l.Began != first.Began {
			t.Errorf("the second one gets %+v", l)
		}
		again := lead(t, b, "a", time.Millisecond)
		if !again.Leads || again.Began != first.Began || again.Vacant != first.Vacant {
			t.Errorf("renewed: %+v, want the term of %+v", again, first)
		}
		wantTTL(t, r, "asynq:scheduler_groups:{g}", 30*24*time.Hour)

		// The lease of a dead leader ends by Redis's clock, and then another leads.
		next := takeOver(t, b, "b", again.Until)
		if next.Began <= again.Until || next.Vacant.Milliseconds() != next.Began-again.Until {
			t.Errorf("taken over: %+v after a lease until %d", next, again.Until)
		}
		if l := lead(t, b, "a", groupLease); l.Leads {
			t.Errorf("the old leader gets %+v", l)
		}
	})
}

// takeOver requests the leadership until it succeeds, which must not be before another leader's
// lease ends.
func takeOver(t *testing.T, b *rdb.Broker, process string, until int64) rdb.Leadership {
	t.Helper()
	for {
		if l := lead(t, b, process, groupLease); l.Leads {
			return l
		} else if l.Until != until {
			t.Fatalf("somebody else leads: %+v", l)
		}
	}
}

// A leader that returns after a gap without any leader begins a new term.
func TestLeadAfterAGap(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		b := r.Broker()
		first := lead(t, b, "a", time.Millisecond)
		for {
			l := lead(t, b, "a", time.Millisecond)
			if !l.Leads {
				t.Fatalf("the only one does not lead: %+v", l)
			}
			if l.Began == first.Began {
				continue
			}
			if l.Vacant <= 0 {
				t.Errorf("after a gap: %+v", l)
			}
			return
		}
	})
}

func releaseLeadership(t *testing.T, b *rdb.Broker, process string) {
	t.Helper()
	if err := b.ReleaseLeadership(context.Background(), "g", process); err != nil {
		t.Fatal(err)
	}
}

func TestReleaseLeadership(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		b := r.Broker()
		releaseLeadership(t, b, "a")
		first := lead(t, b, "a", groupLease)
		releaseLeadership(t, b, "b") // is not the leader
		if l := lead(t, b, "b", groupLease); l.Leads {
			t.Fatalf("a stranger gave up the lead: %+v", l)
		}
		releaseLeadership(t, b, "a")
		releaseLeadership(t, b, "a")
		l := lead(t, b, "b", groupLease)
		if !l.Leads || l.Began < first.Began || l.Vacant < 0 || l.Vacant > groupLease {
			t.Errorf("after the abdication: %+v", l)
		}
	})
}

func wantTTL(t *testing.T, r *redistest.Redis, key string, want time.Duration) {
	t.Helper()
	ttl := r.Client().PTTL(context.Background(), key).Val()
	if ttl > want || ttl < want-time.Minute {
		t.Errorf("the TTL of %s is %v, want %v", key, ttl, want)
	}
}

// soon is a deadline that does not pass.
func soon() int64 { return time.Now().Add(time.Hour).UnixMilli() }

// tickOf enqueues a task of that ID for one tick of entry e, and returns it.
func tickOf(t *testing.T, b *rdb.Broker, at int64, id string, change func(*rdb.NewTask)) *rdb.NewTask {
	t.Helper()
	task := redistest.NewTask(t, "q", id)
	task.Tick = &rdb.Tick{Entry: "e", At: at, Deadline: soon()}
	if change != nil {
		change(task)
	}
	b.Enqueue(context.Background(), task)
	return task
}

func TestEnqueueTick(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		b := r.Broker()
		later := time.Now().Add(time.Hour).Unix()
		ticks := []*rdb.NewTask{
			tickOf(t, b, 1000, "a", func(k *rdb.NewTask) { redistest.Lock(k, "x") }),
			tickOf(t, b, 2000, "b", func(k *rdb.NewTask) { k.ProcessAt = later }),
			tickOf(t, b, 3000, "c", func(k *rdb.NewTask) { k.Group = "g" }),
			tickOf(t, b, 4000, "d", func(k *rdb.NewTask) { k.Group, k.ProcessAt = "g", later }),
		}
		for _, k := range ticks {
			if k.Err != nil {
				t.Errorf("tick %d: %v", k.Tick.At, k.Err)
			}
		}
		record := r.Client().Get(context.Background(), "asynq:{q}:tick:e").Val()
		if record != "4000" {
			t.Errorf("the record is %q, want that of the last tick", record)
		}
		wantTTL(t, r, "asynq:{q}:tick:e", 30*24*time.Hour)
		r.Client().Del(context.Background(), "asynq:{q}:tick:e")
		redistest.WantDump(t, r, `
			asynq:queues = {q}
			Q:g:g = {c:now}
			Q:groups = {g}
			Q:groups_due = {g:now} ttl 1h0m0s
			Q:marker = [1] ttl 1m0s
			Q:pending = [a]
			Q:scheduled = {b:now+1h0m0s d:now+1h0m0s}
			Q:t:a = {msg:test(payload) pending_since:now state:pending unique_key:asynq:{q}:unique:test:x}
			Q:t:b = {msg:test(payload) state:scheduled}
			Q:t:c = {group:g msg:test(payload) state:aggregating}
			Q:t:d = {group:g msg:test(payload) state:scheduled}
			Q:unique:test:x = a ttl 1m0s
		`)
	})
}

// A tick is enqueued once, regardless of which scheduler enqueues it and how often.
func TestEnqueueTickOnce(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		first := tickOf(t, r.Broker(), 1000, "a", nil)
		if first.Err != nil {
			t.Fatal(first.Err)
		}
		redistest.Fetch(t, r.Broker(), rdb.Fetch{N: 1})
		if code := redistest.Settle(t, r.Broker(), rdb.Settlement{ID: "a", Token: "f", Outcome: rdb.Done}); code != script.CodeOK {
			t.Fatal(code)
		}
		redistest.Unchanged(t, r, "the same tick again", func() {
			if again := tickOf(t, r.Broker(), 1000, "a", nil); again.Err != nil {
				t.Errorf("error %v", again.Err)
			}
		})
		redistest.Unchanged(t, r, "the same tick of a leader that was", func() {
			again := tickOf(t, r.Broker(), 1000, "a", func(k *rdb.NewTask) { k.Tick.Deadline = 1 })
			if !errors.Is(again.Err, rdb.ErrTickLate) {
				t.Errorf("error %v: the tick may be that of another leader", again.Err)
			}
		})
		redistest.Unchanged(t, r, "an older tick", func() {
			if old := tickOf(t, r.Broker(), 999, "b", nil); !errors.Is(old.Err, rdb.ErrTickOver) {
				t.Errorf("error %v", old.Err)
			}
		})
		redistest.Unchanged(t, r, "a tick of a leader that was", func() {
			late := tickOf(t, r.Broker(), 2000, "b", func(k *rdb.NewTask) { k.Tick.Deadline = time.Now().Add(-time.Minute).UnixMilli() })
			if !errors.Is(late.Err, rdb.ErrTickLate) {
				t.Errorf("error %v", late.Err)
			}
		})
	})
}

// A refused tick is final: it is not enqueued when the reason of the refusal is gone.
func TestEnqueueTickRefused(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		b := r.Broker()
		r.Make(t, redistest.Lock(redistest.NewTask(t, "q", "a"), "x"))
		for i, tt := range []struct {
			id   string
			want error
		}{{"a", script.ErrTaskIDConflict}, {"b", script.ErrDuplicateTask}} {
			at := int64(1000 + i)
			change := func(k *rdb.NewTask) {
				if tt.id == "b" {
					redistest.Lock(k, "x")
				}
			}
			if k := tickOf(t, b, at, tt.id, change); !errors.Is(k.Err, tt.want) {
				t.Errorf("error %v, want %v", k.Err, tt.want)
			}
			if k := tickOf(t, b, at, "c", nil); !errors.Is(k.Err, tt.want) {
				t.Errorf("again: error %v, want %v", k.Err, tt.want)
			}
		}
	})
}

// A lost reply neither repeats a tick nor makes it fail.
func TestEnqueueTickReplyLost(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		p := redistest.StartProxy(t, r.Addr)
		client := redis.NewClient(&redis.Options{Addr: p.Addr(), DB: r.DB})
		defer client.Close()
		b := rdb.New(client, "")
		if k := tickOf(t, b, 1000, "a", nil); k.Err != nil { // Redis knows the script from now on
			t.Fatal(k.Err)
		}
		lost := p.SwallowReplies(1, "evalsha", "q}:tick:e")
		k := tickOf(t, b, 2000, "b", nil)
		<-lost.Done()
		if k.Err != nil {
			t.Error(k.Err)
		}
		if n := r.Client().LLen(context.Background(), "asynq:{q}:pending").Val(); n != 2 {
			t.Errorf("%d tasks are pending, want 2", n)
		}
	})
}

func TestLoadTickRecord(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		recall := func(seed, over, last int64, made bool) {
			t.Helper()
			m := &rdb.TickRecord{Entry: "e", Queue: "q", Seed: seed, Over: over}
			if b.LoadTickRecord(ctx, m); m.Err != nil || m.Last != last || m.Made != made {
				t.Errorf("seed %d, over %d: got %d, made %v, error %v; want %d, %v", seed, over, m.Last, m.Made, m.Err, last, made)
			}
			wantTTL(t, r, "asynq:{q}:tick:e", 30*24*time.Hour)
		}
		recall(1000, 0, 1000, false)
		recall(2000, 0, 1000, false)
		if k := tickOf(t, b, 1000, "a", nil); !errors.Is(k.Err, rdb.ErrTickOver) {
			t.Errorf("the tick of the seed: %v", k.Err)
		}
		tickOf(t, b, 3000, "a", nil)
		recall(9000, 0, 3000, true)
		recall(9000, 3000, 3000, true)
		recall(0, 5000, 5000, false)
		recall(0, 4000, 5000, false)
		if k := tickOf(t, b, 4000, "b", nil); !errors.Is(k.Err, rdb.ErrTickOver) {
			t.Errorf("a tick that is over: %v", k.Err)
		}
	})
}

func TestLoadTickRecordSeesBothLimits(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		for i, m := range []*rdb.TickRecord{{Seed: 2, Over: 1}, {Seed: 1, Over: 2}} {
			m.Entry, m.Queue = fmt.Sprint(i), "q"
			if r.Broker().LoadTickRecord(context.Background(), m); m.Last != 2 {
				t.Errorf("seed %d, over %d: %d", m.Seed, m.Over, m.Last)
			}
		}
		key := "asynq:{q}:tick:x"
		redistest.Must(t, r.Client().Set(context.Background(), key, "nonsense", time.Minute))
		m := &rdb.TickRecord{Entry: "x", Queue: "q", Seed: 7}
		if r.Broker().LoadTickRecord(context.Background(), m); m.Err != nil || m.Last != 7 {
			t.Errorf("over a broken record: %+v", m)
		}
	})
}

func entry(t *testing.T, id string, creation []byte) rdb.ScheduleEntry {
	t.Helper()
	encoded, err := (&wire.SchedulerEntry{ID: id, Spec: "@daily", TaskType: "t"}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	return rdb.ScheduleEntry{ID: id, Entry: encoded, Creation: creation}
}

func publishedIDs(t *testing.T, b *rdb.Broker) string {
	t.Helper()
	entries, err := b.SchedulerEntries(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, e := range entries {
		ids = append(ids, e.Entry.ID)
	}
	return strings.Join(ids, " ")
}

func TestPublishEntries(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b, client := context.Background(), r.Broker(), r.Client()
		p, other := wire.Process{Host: "h", PID: 1, ID: "a"}, wire.Process{Host: "h", PID: 2, ID: "b"}
		ns := wire.DefaultNamespace
		redistest.Must(t, client.ZAdd(ctx, ns.Schedulers(), redis.Z{Score: 1, Member: "asynq:schedulers:{dead}"},
			redis.Z{Score: 1e11, Member: "asynq:schedulers:{gone}"}, redis.Z{Score: 2e11, Member: "asynq:schedulers:{string}"}))
		redistest.Must(t, client.Set(ctx, "asynq:schedulers:{string}", "x", 0))
		if err := b.PublishEntries(ctx, other, []rdb.ScheduleEntry{entry(t, "o", nil)}, 10*time.Second); err != nil {
			t.Fatal(err)
		}
		var many []rdb.ScheduleEntry
		for i := range 450 {
			many = append(many, entry(t, fmt.Sprint("m", i), []byte("c")))
		}
		if err := b.PublishEntries(ctx, p, many, 20*time.Second); err != nil {
			t.Fatal(err)
		}
		if got := publishedIDs(t, b); len(strings.Fields(got)) != 451 || !strings.HasPrefix(got, "m0 m1 m2 ") || !strings.HasSuffix(got, "m449 o") {
			t.Errorf("published %s", got)
		}
		few := []rdb.ScheduleEntry{{ID: "broken", Entry: []byte{0xff}}, entry(t, "x", []byte("made")), entry(t, "y", nil)}
		if err := b.PublishEntries(ctx, p, few, 20*time.Second); err != nil {
			t.Fatal(err)
		}
		if got := publishedIDs(t, b); got != "x y o" {
			t.Errorf("published %q", got)
		}
		entries, _ := b.SchedulerEntries(ctx)
		if string(entries[0].Creation) != "made" {
			t.Errorf("the creation is %q", entries[0].Creation)
		}
		list := ns.Scheduler(p)
		wantTTL(t, r, list, 20*time.Second)
		wantTTL(t, r, wire.SchedulerCreations(list), 20*time.Second)
		if members := client.ZRange(ctx, ns.Schedulers(), 0, -1).Val(); slices.Contains(members, "asynq:schedulers:{dead}") {
			t.Errorf("a dead scheduler stays: %v", members)
		}
		for _, p := range []wire.Process{p, other, p} {
			if err := b.WithdrawEntries(ctx, p); err != nil {
				t.Fatal(err)
			}
		}
		if got := publishedIDs(t, b); got != "" {
			t.Errorf("published %q", got)
		}
		if n := client.Exists(ctx, list, wire.SchedulerCreations(list)).Val(); n != 0 {
			t.Errorf("%d keys are left", n)
		}
		// A scheduler without entries is not an error.
		if err := b.PublishEntries(ctx, p, nil, time.Minute); err != nil {
			t.Error(err)
		}
	})
}

func TestRecordEnqueues(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		start := time.Unix(1_700_000_000, 0).UTC()
		for from := 0; from < 1010; from += 101 {
			var events []rdb.EnqueueEvent
			for i := from; i < from+101; i++ {
				events = append(events, rdb.EnqueueEvent{Entry: "e", TaskID: fmt.Sprint(i), At: start.Add(time.Duration(i) * time.Second)})
			}
			events = append(events, events[len(events)-1]) // reported twice
			if err := b.RecordEnqueues(ctx, events...); err != nil {
				t.Fatal(err)
			}
		}
		read := func(offset, limit int) (ids []string) {
			t.Helper()
			events, err := b.EnqueueEvents(ctx, "e", offset, limit)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range events {
				ids = append(ids, e.TaskID)
			}
			return ids
		}
		if got := read(0, 2); !slices.Equal(got, []string{"1009", "1008"}) {
			t.Errorf("the newest are %v", got)
		}
		if got := read(998, 100); !slices.Equal(got, []string{"11", "10"}) {
			t.Errorf("the oldest are %v", got)
		}
		if got := read(0, 0); got != nil {
			t.Errorf("an empty page is %v", got)
		}
		wantTTL(t, r, wire.DefaultNamespace.SchedulerHistory("e"), 90*24*time.Hour)
		redistest.Must(t, r.Client().ZAdd(ctx, wire.DefaultNamespace.SchedulerHistory("e"), redis.Z{Score: 2e9, Member: "\xff"}))
		if got := read(0, 2); !slices.Equal(got, []string{"1009"}) {
			t.Errorf("behind a broken event: %v", got)
		}
	})
}

// DeleteSchedulerGroup deletes a group only if it has no leader; otherwise a second scheduler could
// lead it at the same time.
func TestDeleteSchedulerGroup(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		forget := func(want bool) {
			t.Helper()
			if ok, err := b.DeleteSchedulerGroup(ctx, "g"); ok != want || err != nil {
				t.Errorf("forgotten: %v, %v, want %v", ok, err, want)
			}
		}
		forget(true)
		lead(t, b, "a", groupLease)
		forget(false)
		if l := lead(t, b, "b", groupLease); l.Leads {
			t.Error("the lead was given away")
		}
		releaseLeadership(t, b, "a")
		forget(true)
		if keys := r.Client().Keys(ctx, "*").Val(); len(keys) != 0 {
			t.Errorf("left: %q", keys)
		}
		if l := lead(t, b, "b", groupLease); !l.Leads || l.Vacant >= 0 {
			t.Errorf("a group that was forgotten: %+v", l)
		}
	})
}
