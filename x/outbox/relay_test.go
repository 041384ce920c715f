package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/outbox"
)

func TestRelayRunsInBackground(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		r := e.start(e.relay(outbox.WithPollInterval(time.Hour), outbox.WithBatchSize(2)))
		if err := r.Start(); err == nil || !strings.Contains(err.Error(), "already running") {
			t.Errorf("the second Start returns %v", err)
		}
		const n = 5 // three batches
		for i := range n {
			e.enqueue(asynq.NewTask("t", fmt.Append(nil, i)))
		}
		r.Notify()
		proctest.Eventually(t, "all rows are relayed", func() bool { return len(e.pending()) == n && e.stats().Waiting == 0 })

		var wg sync.WaitGroup
		for range 3 {
			wg.Go(r.Shutdown)
		}
		wg.Wait()
		r.Notify()
		if err := r.Start(); err == nil || !strings.Contains(err.Error(), "shut down") {
			t.Errorf("Start after Shutdown returns %v", err)
		}
	})
}

func TestRelayPolls(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		e.start(e.relay(outbox.WithPollInterval(10 * time.Millisecond)))
		e.enqueue(asynq.NewTask("t", nil))
		proctest.Eventually(t, "the row is relayed", func() bool { return len(e.pending()) == 1 })
	})
}

func TestShutdownBeforeStart(t *testing.T) {
	t.Parallel()
	e := newEnv(t, outbox.SQLite)
	e.useMini()
	r := e.relay()
	r.Shutdown()
	if err := r.Start(); err == nil {
		t.Error("Start after Shutdown returns no error")
	}
}

// TestCrashAfterSend ends relays between Redis and the deletion of the rows. Workers finish the
// tasks meanwhile, so only their idempotency keys show that they existed.
func TestCrashAfterSend(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		const n = 7
		for i := range n {
			e.enqueue(asynq.NewTask("t", fmt.Append(nil, i)))
		}
		crashed := e.relay()
		crashed.SetAfterSend(runtime.Goexit)
		if err := crashed.Start(); err != nil {
			t.Fatal(err)
		}
		proctest.Eventually(t, "the relay has sent all tasks", func() bool { return len(e.pending()) == n })
		crashed.Shutdown() // waits for the end of the relay
		if s := e.stats(); s.Waiting != n || s.Claimed != n {
			t.Fatalf("after the crash: %+v, want %d claimed rows", s, n)
		}
		if _, err := e.inspector.DeleteAllPendingTasks("default"); err != nil {
			t.Fatal(err)
		}

		r := e.relay()
		e.relayAll(r)
		if s := e.stats(); s.Waiting != n {
			t.Fatalf("%+v: another relay may not take claimed rows", s)
		}
		e.box.SetNow(func() time.Time { return time.Now().Add(31 * time.Second) })
		r = e.relay()
		e.relayAll(r)
		s, err := r.Stats(context.Background())
		if want := (outbox.Stats{Relayed: n, Repeated: n}); err != nil || s != want {
			t.Errorf("after the claims have expired: %+v, %v; want %+v", s, err, want)
		}
		if tasks := e.pending(); len(tasks) != 0 {
			t.Errorf("%d tasks were created twice", len(tasks))
		}
	})
}

// TestExpiredKeyIsNotGuessed sends rows again after their idempotency keys may have expired.
func TestExpiredKeyIsNotGuessed(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		e.enqueue(asynq.NewTask("t", nil))
		e.enqueue(asynq.NewTask("t", nil), asynq.IdempotencyKey("own", 10*time.Hour))
		crashed := e.relay()
		crashed.SetAfterSend(runtime.Goexit)
		if err := crashed.Start(); err != nil {
			t.Fatal(err)
		}
		proctest.Eventually(t, "the relay has sent the tasks", func() bool { return len(e.pending()) == 2 })
		crashed.Shutdown()

		// Rows that no relay has claimed are sent, however old they are.
		e.enqueue(asynq.NewTask("t", nil))
		e.box.SetNow(func() time.Time { return time.Now().Add(9*time.Hour + time.Minute) })
		e.relayAll(e.relay())
		rows := e.failed()
		if len(rows) != 1 || !strings.Contains(rows[0].Err, "TTL 10h0m0s") || !strings.Contains(rows[0].Err, "check whether task "+rows[0].ID) {
			t.Fatalf("failed rows %+v, want the one whose own key may have expired", rows)
		}
		if n := len(e.pending()); n != 3 {
			t.Errorf("%d pending tasks, want 3", n)
		}

		if n, err := e.box.Retry(context.Background(), e.db, rows[0].ID); n != 1 || err != nil {
			t.Fatalf("Retry: %d, %v", n, err)
		}
		r := e.relay()
		e.relayAll(r)
		if s, err := r.Stats(context.Background()); err != nil || s.Relayed != 1 || s.Waiting != 0 {
			t.Errorf("%+v, %v; want that the retried row was sent", s, err)
		}
	})
}

func TestRowsWaitForRedis(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		failures := newFailureLog()
		r := e.start(e.relay(outbox.WithPollInterval(10*time.Millisecond), outbox.WithLogger(slog.New(failures))))
		e.enqueue(asynq.NewTask("t", fmt.Append(nil, 0)))
		proctest.Eventually(t, "the first row is relayed", func() bool { return len(e.pending()) == 1 && e.stats().Waiting == 0 })
		if e.mini != nil {
			e.mini.Close()
		} else {
			e.server.Stop()
		}
		e.inTx(func(tx *sql.Tx) bool {
			for i := 1; i < 4; i++ {
				if err := e.box.Enqueue(context.Background(), tx, asynq.NewTask("t", fmt.Append(nil, i))); err != nil {
					t.Fatal(err)
				}
			}
			return true
		})
		r.Notify()
		failures.wait(t, "Redis did not accept the tasks of any row")
		e.enqueue(asynq.NewTask("t", fmt.Append(nil, 4)))
		failures.wait(t, "Redis is unreachable")
		var claimed int
		if err := e.db.QueryRow("SELECT COUNT(*) FROM asynq_outbox WHERE attempts > 0").Scan(&claimed); err != nil || claimed != 3 {
			t.Errorf("%d rows were claimed (%v), want those before the outage", claimed, err)
		}
		if e.mini != nil {
			if err := e.mini.Restart(); err != nil {
				t.Fatal(err)
			}
		} else {
			e.server.Restart(t) // without its data
		}
		proctest.Eventually(t, "all rows are relayed", func() bool { return e.stats().Waiting == 0 })
		want := 4
		if e.mini != nil {
			want = 5 // keeps its data
		}
		if n := len(e.pending()); n != want || len(e.failed()) > 0 {
			t.Errorf("%d pending tasks and failed rows %+v, want %d and none", n, e.failed(), want)
		}
	})
}

func TestRelayOutlivesOutageOfDatabase(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		failures := newFailureLog()
		e.start(e.relay(outbox.WithPollInterval(10*time.Millisecond), outbox.WithLogger(slog.New(failures))))
		e.enqueue(asynq.NewTask("t", nil))
		e.exec("ALTER TABLE asynq_outbox RENAME TO away")
		failures.wait(t, "rows of asynq_outbox") // claims them, or deletes the first one
		e.exec("ALTER TABLE away RENAME TO asynq_outbox")
		e.enqueue(asynq.NewTask("t", nil))
		proctest.Eventually(t, "both rows are relayed", func() bool { return len(e.pending()) == 2 })
	})
}

// TestShutdownInOutage requires that a relay ends although Redis does not reply.
func TestShutdownInOutage(t *testing.T) {
	t.Parallel()
	e := newEnv(t, outbox.SQLite)
	e.useMini()
	failures := newFailureLog()
	r := e.start(e.relay(outbox.WithLogger(slog.New(failures))))
	e.mini.Close()
	e.enqueue(asynq.NewTask("t", nil))
	r.Notify()
	failures.wait(t, "Redis")
	r.Shutdown()
	if s := e.stats(); s.Waiting != 1 || s.Claimed != 0 {
		t.Errorf("%+v, want one row that waits", s)
	}
}

// failureLog is a slog.Handler that reports the errors of relays.
type failureLog struct {
	slog.Handler // discards

	errs chan string
}

func newFailureLog() *failureLog { return &failureLog{slog.DiscardHandler, make(chan string, 1000)} }

func (l *failureLog) Enabled(context.Context, slog.Level) bool { return true }

func (l *failureLog) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "error" {
			l.errs <- a.Value.String()
		}
		return true
	})
	return nil
}

// wait waits for an error that contains a text.
func (l *failureLog) wait(t testing.TB, text string) {
	t.Helper()
	late := time.NewTimer(time.Minute)
	defer late.Stop()
	for {
		select {
		case err := <-l.errs:
			if strings.Contains(err, text) {
				return
			}
		case <-late.C:
			t.Fatalf("no error with %q was logged", text)
		}
	}
}

func TestRowsWaitForRoom(t *testing.T) {
	t.Parallel()
	proctest.NeedRedis(t)
	e := newEnv(t, outbox.SQLite)
	e.useServer("--maxmemory", "1", "--maxmemory-policy", "noeviction")
	const n = 3
	for i := range n {
		e.enqueue(asynq.NewTask("t", fmt.Append(nil, i)))
	}
	r := e.relay()
	if _, err := r.RelayBatch(context.Background()); !errors.Is(err, asynq.ErrRedisFull) {
		t.Fatalf("error %v, want ErrRedisFull", err)
	}
	var sent int
	if err := e.db.QueryRow("SELECT COUNT(*) FROM asynq_outbox WHERE first_sent_at > 0 OR claimed_by <> ''").Scan(&sent); err != nil || sent != 0 {
		t.Errorf("%d rows are claimed, or count as sent (%v)", sent, err)
	}
	if more, err := r.RelayBatch(context.Background()); more || err != nil {
		t.Errorf("rows are sent again at once: %v, %v", more, err)
	}

	// The rows have waited for longer than a key is kept, but none has been sent.
	e.box.SetNow(func() time.Time { return time.Now().Add(48 * time.Hour) })
	redis := redis.NewClient(&redis.Options{Addr: e.redis.Addr})
	defer redis.Close()
	if err := redis.ConfigSet(context.Background(), "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	e.relayAll(e.relay())
	if tasks, failed := e.pending(), e.failed(); len(tasks) != n || len(failed) != 0 {
		t.Errorf("%d pending tasks and failed rows %+v, want %d and none", len(tasks), failed, n)
	}
}

// TestDatabaseFailsAfterSend deletes rows later if the database fails after Redis has their tasks.
func TestDatabaseFailsAfterSend(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		e.enqueue(asynq.NewTask("t", nil))
		r := e.relay()
		r.SetAfterSend(func() { e.exec("ALTER TABLE asynq_outbox RENAME TO away") })
		if _, err := r.RelayBatch(context.Background()); err == nil || !strings.Contains(err.Error(), "delete relayed rows") {
			t.Fatalf("error %v, want one of the deletion", err)
		}
		r.SetAfterSend(nil)
		e.exec("ALTER TABLE away RENAME TO asynq_outbox")
		e.relayAll(r)
		s, err := r.Stats(context.Background())
		if want := (outbox.Stats{Relayed: 1}); err != nil || s != want {
			t.Errorf("%+v, %v; want %+v: the row is deleted without sending it again", s, err, want)
		}
	})
}

// TestUncommittedRowsDoNotBlock relays rows beside an open transaction that has written others.
func TestUncommittedRowsDoNotBlock(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		if e.dialect == outbox.SQLite {
			return // has one writer at a time
		}
		ctx := context.Background()
		open, err := e.db.BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.box.Enqueue(ctx, open, asynq.NewTask("t", []byte("older"))); err != nil {
			t.Fatal(err)
		}
		e.enqueue(asynq.NewTask("t", []byte("newer")))
		e.relayAll(e.relay())
		if tasks := e.pending(); len(tasks) != 1 || string(tasks[0].Payload) != "newer" {
			t.Fatalf("%d pending tasks, want the newer one", len(tasks))
		}
		if err := open.Commit(); err != nil {
			t.Fatal(err)
		}
		e.relayAll(e.relay())
		if tasks := e.pending(); len(tasks) != 2 {
			t.Errorf("%d pending tasks, want 2: rows that commit late are not skipped", len(tasks))
		}
	})
}

func TestListener(t *testing.T) {
	t.Parallel()
	e := newEnv(t, outbox.SQLite)
	e.useMini()
	calls := make(chan func(), 1)
	first := true
	e.start(e.relay(outbox.WithPollInterval(time.Hour), outbox.WithListener(func(ctx context.Context, notify func()) error {
		if first {
			first = false
			return errors.New("no connection")
		}
		calls <- notify
		<-ctx.Done()
		return ctx.Err()
	})))
	notify := <-calls // it is called again
	e.enqueue(asynq.NewTask("t", nil))
	notify()
	proctest.Eventually(t, "the row is relayed", func() bool { return len(e.pending()) == 1 })
}

func TestRetryDelay(t *testing.T) {
	t.Parallel()
	for attempts, want := range map[int]time.Duration{0: time.Second, 1: time.Second, 2: 2 * time.Second, 6: 32 * time.Second, 7: time.Minute, 1e9: time.Minute} {
		if got := outbox.RetryDelay(attempts); got != want {
			t.Errorf("after %d attempts: %v, want %v", attempts, got, want)
		}
	}
}

// BenchmarkLag measures the time from a commit until the task is in Redis, with Notify.
func BenchmarkLag(b *testing.B) {
	for _, d := range []outbox.Dialect{outbox.SQLite, outbox.Postgres, outbox.MySQL} {
		b.Run(d.String(), func(b *testing.B) {
			e := newEnv(b, d)
			e.useServer()
			benchmarkLag(b, e)
		})
	}
}

func benchmarkLag(b *testing.B, e *env) {
	r := e.start(e.relay())
	redis := redis.NewClient(&redis.Options{Addr: e.redis.Addr})
	defer redis.Close()
	ctx := context.Background()
	lags := make([]time.Duration, 0, b.N)
	for b.Loop() {
		e.inTx(func(tx *sql.Tx) bool { return e.box.Enqueue(ctx, tx, asynq.NewTask("t", nil)) == nil })
		committed := time.Now()
		r.Notify()
		for redis.LLen(ctx, "asynq:{default}:pending").Val() == 0 {
			time.Sleep(200 * time.Microsecond)
		}
		lags = append(lags, time.Since(committed))
		if err := redis.Del(ctx, "asynq:{default}:pending").Err(); err != nil {
			b.Fatal(err)
		}
	}
	reportLag(b, lags)
}

func reportLag(b *testing.B, lags []time.Duration) {
	slices.Sort(lags)
	ms := func(q float64) float64 { return float64(lags[int(q*float64(len(lags)-1))].Microseconds()) / 1000 }
	b.ReportMetric(ms(.5), "ms/p50")
	b.ReportMetric(ms(.99), "ms/p99")
	b.ReportMetric(0, "ns/op")
}

// TestNotifications requires that a relay receives the notifications of Postgres, and none of
// transactions that are rolled back.
func TestNotifications(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"", "Mixed_"} {
		t.Run("prefix="+prefix, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, outbox.Postgres)
			e.useMini()
			opts := []outbox.Option{outbox.WithNotify(), outbox.WithTablePrefix(prefix)}
			for _, m := range outbox.Schema(e.dialect, opts...) {
				for _, statement := range m.Up {
					e.exec(statement)
				}
			}
			e.box = outbox.New(e.dialect, opts...)
			listening := make(chan struct{})
			var once sync.Once
			count := 0
			r := e.relay(outbox.WithPollInterval(time.Hour), listen(e.dsn, e.box), outbox.OnNotification(func() {
				count++
				once.Do(func() { close(listening) })
			}))
			e.start(r)
			<-listening
			for i := range 3 {
				e.inTx(func(tx *sql.Tx) bool {
					if err := e.box.Enqueue(context.Background(), tx, asynq.NewTask("t", nil)); err != nil {
						t.Fatal(err)
					}
					return i != 1
				})
				if i != 1 {
					want := 1 + i/2
					proctest.Eventually(t, "the row is relayed", func() bool { return len(e.pending()) == want })
				}
			}
			r.Shutdown()
			if count != 3 {
				t.Errorf("%d notifications, want 3: at the start and for two commits", count)
			}
		})
	}
}
