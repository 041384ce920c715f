package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/outbox"
)

func TestCommitEnqueuesRollbackDoesNot(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		ctx := context.Background()
		for i := range 10 {
			e.inTx(func(tx *sql.Tx) bool {
				if err := e.box.Enqueue(ctx, tx, asynq.NewTask("mail", fmt.Append(nil, i))); err != nil {
					t.Fatal(err)
				}
				return i%2 == 0
			})
		}
		if s := e.stats(); s.Waiting != 5 || s.Claimed != 0 || s.Failed != 0 || s.Lag <= 0 {
			t.Errorf("before the relay: %+v, want 5 waiting rows", s)
		}
		r := e.relay()
		e.relayAll(r)
		tasks := e.pending()
		if len(tasks) != 5 {
			t.Fatalf("%d pending tasks, want 5", len(tasks))
		}
		for i, info := range tasks {
			if want := fmt.Sprint(2 * i); string(info.Payload) != want {
				t.Errorf("task %d has payload %s, want %s: rows keep their order", i, info.Payload, want)
			}
		}
		s, err := r.Stats(ctx)
		if want := (outbox.Stats{Relayed: 5}); err != nil || s != want {
			t.Errorf("after the relay: %+v, %v; want %+v", s, err, want)
		}
	})
}

// TestTaskOfRow compares the task of a row with the task that a client enqueues.
func TestTaskOfRow(t *testing.T) {
	t.Parallel()
	at := time.Now().Add(time.Hour).Truncate(time.Second)
	cases := map[string]struct {
		task *asynq.Task
		opts []asynq.Option
	}{
		"no options":  {task: asynq.NewTask("t", nil)},
		"any payload": {task: asynq.NewTask("t", []byte("\x00\xff'\";--?$1"))},
		"any text": {
			task: asynq.NewTaskWithHeaders("Grüße?$1'\"", []byte("p"), map[string]string{"k\x00": "v\n\"'", "🙂": ""}),
			opts: []asynq.Option{asynq.Queue("a'b\"?$1🙂"), asynq.Header("h?", "\x00")},
		},
		"options of the task": {task: asynq.NewTask("t", nil, asynq.MaxRetry(3), asynq.Timeout(time.Minute), asynq.Queue("q"))},
		"options of the call": {
			task: asynq.NewTask("t", nil, asynq.MaxRetry(3), asynq.Queue("q")),
			opts: []asynq.Option{asynq.MaxRetry(5), nil, asynq.Retention(time.Hour), asynq.Deadline(at), asynq.TaskID("my-id")},
		},
		"time":     {task: asynq.NewTask("t", nil), opts: []asynq.Option{asynq.ProcessAt(at)}},
		"unique":   {task: asynq.NewTask("t", nil), opts: []asynq.Option{asynq.Unique(time.Hour)}},
		"own lock": {task: asynq.NewTask("t", nil), opts: []asynq.Option{asynq.UniqueKey("k", time.Hour)}},
		"reject":   {task: asynq.NewTask("t", []byte("r")), opts: []asynq.Option{asynq.Unique(time.Hour), asynq.OnDuplicate(asynq.Reject)}},
		"expires":  {task: asynq.NewTask("t", nil), opts: []asynq.Option{asynq.ExpiresIn(time.Hour), asynq.ProcessAt(at.Add(-30 * time.Minute))}},
		"group":    {task: asynq.NewTask("t", nil), opts: []asynq.Option{asynq.Group("g")}},
		"partition": {
			task: asynq.NewTask("t", nil, asynq.PartitionKey("of the task")),
			opts: []asynq.Option{asynq.PartitionKey("Kunde 7; a=b%3B\"'?$1🙂")},
		},
		"partition with headers": {
			task: asynq.NewTaskWithHeaders("t", nil, map[string]string{"k": "v"}),
			opts: []asynq.Option{asynq.PartitionKey("customer"), asynq.ExpiresIn(time.Hour)},
		},
		"key": {task: asynq.NewTask("t", nil), opts: []asynq.Option{asynq.IdempotencyKey("k", time.Hour)}},
	}
	each(t, func(t *testing.T, e *env) {
		other := e.redis
		other.DB = 1 // so that locks and keys of its tasks are in no one's way
		reference := asynq.NewClient(other)
		defer reference.Close()
		for name, c := range cases {
			want, err := reference.Enqueue(c.task, c.opts...)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			e.enqueue(c.task, c.opts...)
			e.relayAll(e.relay())
			if failed := e.failed(); len(failed) > 0 {
				t.Fatalf("%s: failed rows %+v", name, failed)
			}
			got := e.only(want)
			if want.ID == "my-id" && got.ID != want.ID {
				t.Errorf("%s: ID %s, want %s", name, got.ID, want.ID)
			}
			ignored := cmpopts.IgnoreFields(asynq.TaskInfo{}, "ID", "NextProcessAt", "ExpiresAt", "Age")
			if diff := cmp.Diff(want, got, ignored, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: the task of the row differs from that of a client (-want +got):\n%s", name, diff)
			}
			if got.ExpiresAt.IsZero() != want.ExpiresAt.IsZero() {
				t.Errorf("%s: expires at %v, want %v", name, got.ExpiresAt, want.ExpiresAt)
			}
			if want.State == asynq.TaskStateScheduled && !got.NextProcessAt.Equal(want.NextProcessAt) {
				t.Errorf("%s: due at %v, want %v", name, got.NextProcessAt, want.NextProcessAt)
			}
			if err := e.inspector.DeleteTask(got.Queue, got.ID); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// only returns the only task with the queue, state and group of another one.
func (e *env) only(like *asynq.TaskInfo) (found *asynq.TaskInfo) {
	e.t.Helper()
	for info, err := range e.inspector.Tasks(context.Background(), like.Queue, like.State, asynq.TaskFilter{Group: like.Group}) {
		if err != nil || found != nil {
			e.t.Fatalf("tasks of %q: %v, or more than one", like.Queue, err)
		}
		found = info
	}
	if found == nil {
		e.t.Fatalf("queue %q has no %v task", like.Queue, like.State)
	}
	return found
}

func TestProcessInCountsFromEnqueue(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		began := time.Now()
		e.enqueue(asynq.NewTask("t", nil, asynq.ProcessIn(time.Hour)))
		enqueued := time.Now()
		e.client = asynq.NewClient(asynq.WithClock(e.redis, func() time.Time { return time.Now().Add(10 * time.Minute) }))
		defer e.client.Close()
		e.relayAll(e.relay())
		tasks, err := e.inspector.ListScheduledTasks("default")
		if err != nil || len(tasks) != 1 {
			t.Fatalf("%d scheduled tasks, %v; want 1", len(tasks), err)
		}
		due := tasks[0].NextProcessAt
		if due.Before(began.Add(time.Hour)) || due.After(enqueued.Add(time.Hour+time.Second)) {
			t.Errorf("due %v after Enqueue, want an hour, rounded up to a second", due.Sub(began))
		}
	})
}

// TestExpiresInCountsFromEnqueue relays rows shortly before and after their tasks expire.
func TestExpiresInCountsFromEnqueue(t *testing.T) {
	t.Parallel()
	now := time.Now()
	box := outbox.New(outbox.SQLite)
	box.SetNow(func() time.Time { return now })
	for d, want := range map[time.Duration]time.Duration{0: time.Hour, 59 * time.Minute: time.Minute, -time.Minute: time.Hour} {
		task, err := box.TaskAt(now.Add(d), asynq.NewTask("t", nil, asynq.ExpiresIn(time.Hour)))
		if err != nil {
			t.Fatal(err)
		}
		opts := task.Options()
		if got := opts[len(opts)-1]; got != asynq.ExpiresIn(want) {
			t.Errorf("relayed after %v: %v, want %v", d, got, want)
		}
	}
	for _, d := range []time.Duration{time.Hour, 2 * time.Hour} {
		if _, err := box.TaskAt(now.Add(d), asynq.NewTask("t", nil, asynq.ExpiresIn(time.Hour))); !errors.Is(err, outbox.ErrExpired) {
			t.Errorf("relayed after %v: error %v, want %v", d, err, outbox.ErrExpired)
		}
	}
}

// A row whose task has expired is deleted, and makes no task.
func TestExpiredRowsAreDeleted(t *testing.T) {
	t.Parallel()
	e := newEnv(t, outbox.SQLite)
	e.useMini()
	e.enqueue(asynq.NewTask("t", nil), asynq.ExpiresIn(time.Minute))
	e.box.SetNow(func() time.Time { return time.Now().Add(time.Hour) })
	e.relayAll(e.relay())
	if failed := e.failed(); len(failed) > 0 {
		t.Errorf("failed rows %+v", failed)
	}
	if tasks := e.pending(); len(tasks) > 0 {
		t.Errorf("%d tasks exist", len(tasks))
	}
}

func TestInvalidTasksAreErrorsOfEnqueue(t *testing.T) {
	t.Parallel()
	e := newEnv(t, outbox.SQLite)
	ctx := context.Background()
	for name, c := range map[string]struct {
		task *asynq.Task
		opt  asynq.Option
		want string
	}{
		"nil task":       {nil, nil, "task must not be nil"},
		"no type":        {asynq.NewTask(" ", nil), nil, "type must not be empty"},
		"zero byte":      {asynq.NewTask("a\x00b", nil), nil, "zero byte"},
		"type not UTF-8": {asynq.NewTask("\xff", nil), nil, "UTF-8"},
		"queue":          {asynq.NewTask("t", nil), asynq.Queue(""), "queue"},
		"timeout":        {asynq.NewTask("t", nil), asynq.Timeout(-1), "must not be negative"},
		"time":           {asynq.NewTask("t", nil), asynq.ProcessAt(time.Date(12_000, 1, 1, 0, 0, 0, 0, time.UTC)), "cannot be stored as text"},
		"partition":      {asynq.NewTask("t", nil), asynq.PartitionKey(" "), "partition key must not be blank"},
		"debounce":       {asynq.NewTask("t", nil), asynq.Debounce("k", time.Second, 0), "exclude"},
		"throttle":       {asynq.NewTask("t", nil), asynq.Throttle("k", time.Second), "exclude"},
		"policy":         {asynq.NewTask("t", nil, asynq.Unique(time.Hour)), asynq.OnDuplicate(asynq.Replace), "exclude"},
		"payload":        {asynq.NewTask("t", make([]byte, outbox.MaxMessage+1)), nil, "more than"},
	} {
		e.inTx(func(tx *sql.Tx) bool {
			err := e.box.Enqueue(ctx, tx, c.task, c.opt)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "outbox: ") {
				t.Errorf("%s: error %v, want one with %q", name, err, c.want)
			}
			return false
		})
	}
	if err := e.box.Enqueue(ctx, nil, asynq.NewTask("t", nil)); err == nil || !strings.Contains(err.Error(), "tx must not be nil") {
		t.Errorf("nil transaction: %v", err)
	}
	if err := outbox.New(outbox.SQLite, outbox.WithTablePrefix("none_")).Enqueue(ctx, e.db, asynq.NewTask("t", nil)); err == nil ||
		!strings.Contains(err.Error(), "none_outbox") {
		t.Errorf("missing table: error %v, want one that names it", err)
	}
}

func TestTablePrefix(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		other := outbox.WithTablePrefix("other_")
		for range 2 { // migrations can be repeated
			for _, m := range outbox.Schema(e.dialect, other) {
				for _, statement := range m.Up {
					e.exec(statement)
				}
			}
		}
		box := outbox.New(e.dialect, other)
		ctx := context.Background()
		if err := box.Enqueue(ctx, e.db, asynq.NewTask("t", nil)); err != nil {
			t.Fatal(err)
		}
		if s, err := box.Stats(ctx, e.db); err != nil || s.Waiting != 1 || e.stats().Waiting != 0 {
			t.Errorf("with a prefix: %+v, %v; without: %+v; want the row in its own table", s, err, e.stats())
		}
		for range 2 {
			for _, m := range outbox.Schema(e.dialect, other) {
				for _, statement := range m.Down {
					e.exec(statement)
				}
			}
		}
		if _, err := box.Stats(ctx, e.db); err == nil {
			t.Error("the table exists after its migration was undone")
		}
	})
}

func TestInvalidArgumentsPanic(t *testing.T) {
	t.Parallel()
	e := newEnv(t, outbox.SQLite)
	e.useMini()
	for name, f := range map[string]func(){
		"dialect":     func() { outbox.New(0) },
		"schema":      func() { outbox.Schema(9) },
		"prefix":      func() { outbox.New(outbox.MySQL, outbox.WithTablePrefix("a b")) },
		"long prefix": func() { outbox.New(outbox.MySQL, outbox.WithTablePrefix(strings.Repeat("a", 33))) },
		"nil box":     func() { outbox.NewRelay(nil, e.db, e.client) },
		"nil db":      func() { outbox.NewRelay(e.box, nil, e.client) },
		"nil client":  func() { outbox.NewRelay(e.box, e.db, nil) },
		"TTL":         func() { e.relay(outbox.WithIdempotencyTTL(time.Minute)) },
		"poll":        func() { e.relay(outbox.WithPollInterval(0)) },
		"batch":       func() { e.relay(outbox.WithBatchSize(501)) },
	} {
		func() {
			defer func() {
				if text, ok := recover().(string); !ok || !strings.HasPrefix(text, "outbox: ") {
					t.Errorf("%s: panics with %q, want a text of the package", name, text)
				}
			}()
			f()
		}()
	}
}

func TestParseDialect(t *testing.T) {
	t.Parallel()
	for _, d := range []outbox.Dialect{outbox.SQLite, outbox.Postgres, outbox.MySQL} {
		if got, err := outbox.ParseDialect(d.String()); got != d || err != nil {
			t.Errorf("ParseDialect(%q) = %v, %v", d, got, err)
		}
	}
	if d, err := outbox.ParseDialect("MariaDB"); d != outbox.MySQL || err != nil {
		t.Errorf("ParseDialect(MariaDB) = %v, %v", d, err)
	}
	if _, err := outbox.ParseDialect("oracle"); err == nil {
		t.Error("ParseDialect accepts oracle")
	}
}
