package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/outbox"
)

// TestOnceInHandler lets attempts fail after their effects have committed.
func TestOnceInHandler(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		e.exec("CREATE TABLE effects (name VARCHAR(64) NOT NULL)")
		const n = 5
		for i := range n {
			if _, err := e.client.Enqueue(asynq.NewTask("t", fmt.Append(nil, i)), asynq.MaxRetry(3)); err != nil {
				t.Fatal(err)
			}
		}
		done := make(chan struct{}, n)
		server := asynq.NewServer(e.redis, asynq.Config{
			Concurrency: 2, LogLevel: asynq.FatalLevel,
			RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return 0 },
		})
		err := server.Start(asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			if err := effect(ctx, e.db, e.box, task); err != nil {
				return err
			}
			if attempt, _ := asynq.GetRetryCount(ctx); attempt < 2 {
				return errors.New("after the commit")
			}
			done <- struct{}{}
			return nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		for range n {
			<-done
		}
		server.Shutdown()
		names := e.names("SELECT name FROM effects")
		slices.Sort(names)
		if want := []string{"0", "1", "2", "3", "4"}; !slices.Equal(names, want) {
			t.Errorf("effects %q, want %q", names, want)
		}
	})
}

// TestOnceSurvivesKill kills workers between the commit of an effect and the outcome of the task.
func TestOnceSurvivesKill(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		e.exec("CREATE TABLE effects (name VARCHAR(64) NOT NULL)")
		const each, kills = 20, 2
		cfg := e.config()
		cfg.Worker = true
		worker, n := startChild(t, cfg), 0
		// Each worker gets tasks of its own: the one before may have run all of its tasks.
		enqueue := func() {
			for range each {
				if _, err := e.client.Enqueue(asynq.NewTask("t", fmt.Append(nil, n))); err != nil {
					t.Fatal(err)
				}
				n++
			}
		}
		for i := range kills {
			enqueue()
			for range 5 + 7*i {
				if line := <-worker.lines; !strings.HasPrefix(line, "committed ") {
					t.Fatalf("the worker printed %q:\n%s", line, worker.stderr.String())
				}
			}
			worker.kill()
			worker = startChild(t, cfg)
		}
		enqueue()
		defer func() { worker.kill() }()
		proctest.Eventually(t, "all tasks are done", func() bool {
			info, err := e.inspector.GetQueueInfo("default")
			if err != nil {
				t.Fatal(err)
			}
			return info.Size == 0
		})
		effects := make(map[string]int)
		for _, name := range e.names("SELECT name FROM effects") {
			effects[name]++
		}
		for i := range n {
			if effects[fmt.Sprint(i)] != 1 {
				t.Errorf("task %d had its effect %d times", i, effects[fmt.Sprint(i)])
			}
		}
	})
}

func TestOnceConcurrently(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		ctx := context.Background()
		for _, committed := range []bool{true, false} {
			id := fmt.Sprint("committed=", committed)
			first, err := e.db.BeginTx(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			if fresh, err := e.box.OnceByID(ctx, first, "q", id); !fresh || err != nil {
				t.Fatalf("the first attempt: %v, %v", fresh, err)
			}
			type result struct {
				fresh bool
				err   error
			}
			second := make(chan result, 1)
			go func() {
				tx, err := e.db.BeginTx(ctx, nil)
				if err != nil {
					second <- result{err: err}
					return
				}
				fresh, err := e.box.OnceByID(ctx, tx, "q", id)
				second <- result{fresh, errors.Join(err, tx.Commit())}
			}()
			if committed {
				err = first.Commit()
			} else {
				err = first.Rollback()
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := <-second; got.err != nil || got.fresh == committed {
				t.Errorf("second attempt, %s: %v, %v", id, got.fresh, got.err)
			}
		}
	})
}

func TestOnceDistinguishesTasks(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		ctx := context.Background()
		long := strings.Repeat("x", 10_000)
		for _, task := range [][2]string{
			{"q", "id"}, {"q", "ID"}, {"q", "id "}, {"Q", "id"}, {"qi", "d"}, {"q", long}, {"q", long + "y"}, {"q\x00", "id"}, {"q", "'?$1"},
		} {
			for i := range 2 {
				e.inTx(func(tx *sql.Tx) bool {
					fresh, err := e.box.OnceByID(ctx, tx, task[0], task[1])
					if err != nil || fresh != (i == 0) {
						t.Errorf("call %d for task %.20q of queue %q: %v, %v", i, task[1], task[0], fresh, err)
					}
					return true
				})
			}
		}
		e.inTx(func(tx *sql.Tx) bool {
			for _, c := range []struct {
				tx   outbox.Tx
				want string
			}{{tx, "needs the context of a handler"}} {
				if _, err := e.box.Once(ctx, c.tx, asynq.NewTask("t", nil)); err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("error %v, want one with %q", err, c.want)
				}
			}
			return false
		})
		if _, err := e.box.OnceByID(ctx, nil, "q", "id"); err == nil || !strings.Contains(err.Error(), "tx must not be nil") {
			t.Errorf("nil transaction: %v", err)
		}
	})
}

func TestPurge(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		ctx := context.Background()
		const n = 2345 // more than two pages
		e.inTx(func(tx *sql.Tx) bool {
			for i := range n {
				if _, err := e.box.OnceByID(ctx, tx, "q", fmt.Sprint(i)); err != nil {
					t.Fatal(err)
				}
			}
			return true
		})
		e.relayAll(e.relay())
		if fresh, err := e.box.OnceByID(ctx, e.db, "q", "0"); fresh || err != nil {
			t.Errorf("a record was deleted early: %v, %v", fresh, err)
		}
		e.box.SetNow(func() time.Time { return time.Now().Add(31 * 24 * time.Hour) })
		if fresh, err := e.box.OnceByID(ctx, e.db, "q", "new"); !fresh || err != nil {
			t.Fatalf("a new record: %v, %v", fresh, err)
		}
		e.relayAll(e.relay(outbox.WithInboxRetention(-1)))
		e.relayAll(e.relay())
		if deleted, err := e.box.Purge(ctx, e.db, time.Hour); deleted != 0 || err != nil {
			t.Errorf("%d records were left (%v)", deleted, err)
		}
		if deleted, err := e.box.Purge(ctx, e.db, -time.Hour); deleted != 1 || err != nil {
			t.Errorf("Purge returns %d, %v; want 1: the new record", deleted, err)
		}
	})
}
