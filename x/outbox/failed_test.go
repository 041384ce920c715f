package outbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/outbox"
)

// insertRow writes a row as another program might.
func (e *env) insertRow(id, typename, headers, options string) {
	e.t.Helper()
	query := "INSERT INTO asynq_outbox (id, type, payload, headers, options, created_at) VALUES (?, ?, ?, ?, ?, ?)"
	if e.dialect == outbox.Postgres {
		query = "INSERT INTO asynq_outbox (id, type, payload, headers, options, created_at) VALUES ($1, $2, $3, $4, $5, $6)"
	}
	e.exec(query, id, typename, []byte("p"), headers, options, time.Now().UnixMicro())
}

// TestPoisonedRows requires that rows that can never be enqueued fail, and delay no others.
func TestPoisonedRows(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		poisoned := map[string]string{ // ID → what the error names
			"0-options":   "options",
			"0-headers":   "headers",
			"0-unknown":   "Explode(1)",
			"0-long":      "🙂🙂",
			"0-type":      "type",
			"0-queue":     "queue",
			"0-timeout":   "must not be negative",
			"0-conflict":  "conflicts",
			"0-duplicate": "already exists",
		}
		if _, err := e.client.Enqueue(asynq.NewTask("t", nil), asynq.TaskID("taken"), asynq.Queue("other")); err != nil {
			t.Fatal(err)
		}
		if _, err := e.client.Enqueue(asynq.NewTask("t", []byte("p")), asynq.Unique(time.Hour), asynq.Queue("other")); err != nil {
			t.Fatal(err)
		}
		e.insertRow("0-options", "t", "{}", "no JSON")
		e.insertRow("0-headers", "t", "[1]", "[]")
		e.insertRow("0-unknown", "t", "{}", `["Explode(1)"]`)
		e.insertRow("0-long", "t", "{}", `["`+strings.Repeat("🙂", 1000)+`"]`)
		e.insertRow("0-type", " ", "{}", "[]")
		e.insertRow("0-queue", "t", "{}", `["Queue(\"\")"]`)
		e.insertRow("0-timeout", "t", "{}", `["Timeout(-1s)"]`)
		e.insertRow("0-conflict", "t", "{}", `["Queue(\"other\")", "TaskID(\"taken\")"]`)
		e.insertRow("0-duplicate", "t", "{}", `["Queue(\"other\")", "Unique(1h)"]`)
		const n = 10
		for i := range n {
			e.enqueue(asynq.NewTask("t", fmt.Append(nil, i)))
		}
		r := e.relay()
		if _, err := r.RelayBatch(context.Background()); err != nil { // one batch: no delay
			t.Fatal(err)
		}
		if got := len(e.pending()); got != n {
			t.Errorf("%d tasks are pending after one batch, want %d", got, n)
		}
		rows := e.failed()
		if len(rows) != len(poisoned) {
			t.Errorf("%d failed rows, want %d", len(rows), len(poisoned))
		}
		for _, row := range rows {
			if want := poisoned[row.ID]; want == "" || !strings.Contains(row.Err, want) {
				t.Errorf("row %s failed with %q, want an error with %q", row.ID, row.Err, want)
			}
			if row.Attempts != 1 || row.FailedAt.IsZero() || row.CreatedAt.IsZero() || string(row.Payload) != "p" {
				t.Errorf("failed row is incomplete: %+v", row)
			}
		}
		if s := e.stats(); s.Failed != len(poisoned) || s.Waiting != 0 || s.Lag != 0 {
			t.Errorf("%+v, want failed rows only", s)
		}
		e.relayAll(r)
		if got := len(e.pending()); got != n {
			t.Errorf("%d pending tasks: failed rows must not be sent", got)
		}

		ctx := context.Background()
		if err := e.inspector.DeleteTask("other", "taken"); err != nil {
			t.Fatal(err)
		}
		if n, err := e.box.Retry(ctx, e.db, "0-conflict", "0-options", "missing"); n != 2 || err != nil {
			t.Errorf("Retry returns %d, %v; want 2", n, err)
		}
		e.relayAll(r)
		if _, err := e.inspector.GetTaskInfo("other", "taken"); err != nil {
			t.Errorf("the task of a retried row: %v", err)
		}
		if n, err := e.box.Discard(ctx, e.db, "0-options", "0-conflict"); n != 1 || err != nil {
			t.Errorf("Discard returns %d, %v; want 1: the other row is gone", n, err)
		}
		if s := e.stats(); s.Failed != len(poisoned)-2 {
			t.Errorf("%d failed rows, want %d", s.Failed, len(poisoned)-2)
		}
	})
}

func TestDropDuplicates(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		for range 3 {
			e.enqueue(asynq.NewTask("t", nil), asynq.Unique(time.Hour))
		}
		r := e.relay(outbox.WithDropDuplicates())
		e.relayAll(r)
		if s, err := r.Stats(context.Background()); err != nil || s != (outbox.Stats{Relayed: 1}) || len(e.pending()) != 1 {
			t.Errorf("%+v, %v; want one task and no rows", s, err)
		}
	})
}

// TestSameKey requires that rows with the same idempotency key become one task.
func TestSameKey(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		for range 3 {
			e.enqueue(asynq.NewTask("t", nil), asynq.IdempotencyKey("event-1", time.Hour))
		}
		e.relayAll(e.relay())
		if s := e.stats(); s != (outbox.Stats{}) || len(e.pending()) != 1 {
			t.Errorf("%+v and %d tasks, want no rows and one task", s, len(e.pending()))
		}
	})
}

func TestManyFailedRows(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		const n = 612 // more than a page and a statement
		var ids []string
		for i := range n {
			id := fmt.Sprintf("row-%04d", i)
			ids = append(ids, id)
			e.insertRow(id, "t", `{"h":"v"}`, `["Queue(\"\")"]`)
		}
		e.relayAll(e.relay())
		rows := e.failed()
		if len(rows) != n {
			t.Fatalf("%d failed rows, want %d", len(rows), n)
		}
		for i, r := range rows {
			if r.ID != ids[i] || r.Headers["h"] != "v" || len(r.Options) != 1 {
				t.Fatalf("row %d is %+v", i, r)
			}
		}
		for _, err := range e.box.Failed(context.Background(), e.db) {
			if err != nil {
				t.Error(err)
			}
			break // an iteration may end early
		}
		if deleted, err := e.box.Discard(context.Background(), e.db, ids...); deleted != n || err != nil {
			t.Errorf("Discard returns %d, %v; want %d", deleted, err, n)
		}
	})
}

// TestRejectedQueue requires that rows of a queue that Redis rejects delay no others, even if they
// are more than a batch.
func TestRejectedQueue(t *testing.T) {
	t.Parallel()
	proctest.NeedRedis(t)
	e := newEnv(t, outbox.SQLite)
	e.useServer()
	ctx := context.Background()
	admin := redis.NewClient(&redis.Options{Addr: e.redis.Addr})
	defer admin.Close()
	err := admin.Do(ctx, "ACL", "SETUSER", "limited", "on", ">secret", "+@all", "&*", "~asynq:queues", "~asynq:{default}:*").Err()
	if err != nil {
		t.Fatal(err)
	}
	limited := e.redis
	limited.Username, limited.Password = "limited", "secret"
	e.client = asynq.NewClient(limited)
	defer e.client.Close()

	const batch, rejected = 5, 7
	e.inTx(func(tx *sql.Tx) bool {
		for i := range rejected + 1 {
			queue := "forbidden"
			if i == rejected {
				queue = "default"
			}
			if err := e.box.Enqueue(ctx, tx, asynq.NewTask("t", nil), asynq.Queue(queue)); err != nil {
				t.Fatal(err)
			}
		}
		return true
	})
	r := e.relay(outbox.WithBatchSize(batch))
	if _, err := r.RelayBatch(ctx); err == nil || !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("error %v, want that of Redis", err)
	}
	if _, err := r.RelayBatch(ctx); err != nil {
		t.Errorf("a batch with an accepted task: %v", err)
	}
	if s := e.stats(); len(e.pending()) != 1 || s.Waiting != rejected || s.Claimed != 0 || s.Failed != 0 {
		t.Errorf("%d tasks are pending, %+v; want one task, and rows that wait", len(e.pending()), s)
	}
	if err := admin.Do(ctx, "ACL", "SETUSER", "limited", "~*").Err(); err != nil {
		t.Fatal(err)
	}
	e.box.SetNow(func() time.Time { return time.Now().Add(2 * time.Second) })
	e.relayAll(e.relay())
	if s := e.stats(); s != (outbox.Stats{}) {
		t.Errorf("after the permission is granted: %+v", s)
	}
}
