package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/alicebob/miniredis/v2"
	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/outbox"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(runChild())
	}
	goleak.VerifyTestMain(mainRun{m}, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

type mainRun struct{ m *testing.M }

func (r mainRun) Run() int {
	code := r.m.Run()
	if err := errors.Join(postgresServer.stop(), mariadbServer.stop()); err != nil && code == 0 {
		slog.Error("servers not stopped", "error", err)
		return 1
	}
	return code
}

// env is the environment of a test: an empty database with an outbox, and an empty Redis.
type env struct {
	t       testing.TB
	dialect outbox.Dialect
	driver  string
	dsn     string
	db      *sql.DB
	box     *outbox.Outbox

	redis     asynq.RedisClientOpt
	mini      *miniredis.Miniredis // nil on a real server
	server    *proctest.Redis      // nil on miniredis
	client    *asynq.Client
	inspector *asynq.Inspector
}

// each runs a test on every database, as parallel subtests: on SQLite with miniredis, on Postgres
// and MariaDB with a real Redis where there is one.
func each(t *testing.T, test func(t *testing.T, e *env)) {
	t.Helper()
	for _, d := range []outbox.Dialect{outbox.SQLite, outbox.Postgres, outbox.MySQL} {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, d)
			if found, err := proctest.HasRedis(); d == outbox.SQLite || !found && err == nil {
				e.useMini()
			} else {
				e.useServer()
			}
			test(t, e)
		})
	}
}

// newEnv returns an environment without Redis.
func newEnv(t testing.TB, d outbox.Dialect) *env {
	t.Helper()
	switch d {
	case outbox.Postgres:
		return newEnvOn(t, d, postgresServer.driver, postgresServer.database(t))
	case outbox.MySQL:
		return newEnvOn(t, d, mariadbServer.driver, mariadbServer.database(t))
	default:
		return newEnvOn(t, d, "sqlite", sqliteDSN(filepath.Join(t.TempDir(), "outbox.db")))
	}
}

// newEnvOn is newEnv with an empty database.
func newEnvOn(t testing.TB, d outbox.Dialect, driver, dsn string) *env {
	t.Helper()
	e := &env{t: t, dialect: d, driver: driver, dsn: dsn}
	e.db = openDB(t, e.driver, e.dsn)
	for _, m := range outbox.Schema(d) {
		for _, statement := range m.Up {
			e.exec(statement)
		}
	}
	e.box = outbox.New(d)
	return e
}

// sqliteDSN has the settings that docs/OUTBOX.md recommends.
func sqliteDSN(file string) string {
	return "file:" + file + "?_pragma=busy_timeout(60000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)&_txlock=immediate"
}

func openDB(t testing.TB, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxIdleConns(8)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// useMini connects to a miniredis.
func (e *env) useMini() {
	e.mini = miniredis.RunT(e.t)
	e.connect(e.mini.Addr())
}

// useServer connects to a redis-server that keeps all that it has confirmed.
func (e *env) useServer(args ...string) {
	e.server = proctest.StartRedis(e.t, args...)
	e.connect(e.server.Addr())
}

func (e *env) connect(addr string) {
	e.redis = asynq.RedisClientOpt{Addr: addr}
	e.client, e.inspector = asynq.NewClient(e.redis), asynq.NewInspector(e.redis)
	e.t.Cleanup(func() { _ = errors.Join(e.client.Close(), e.inspector.Close()) }) // the test is over
}

// exec executes a statement.
func (e *env) exec(query string, args ...any) {
	e.t.Helper()
	if _, err := e.db.ExecContext(context.Background(), query, args...); err != nil {
		e.t.Fatalf("%v\n%s", err, query)
	}
}

// inTx calls f in a transaction, which commits unless f returns false.
func (e *env) inTx(f func(tx *sql.Tx) bool) {
	e.t.Helper()
	tx, err := e.db.BeginTx(context.Background(), nil)
	if err != nil {
		e.t.Fatal(err)
	}
	if f(tx) {
		err = tx.Commit()
	} else {
		err = tx.Rollback()
	}
	if err != nil {
		e.t.Fatal(err)
	}
}

// enqueue commits a task to the outbox.
func (e *env) enqueue(task *asynq.Task, opts ...asynq.Option) {
	e.t.Helper()
	e.inTx(func(tx *sql.Tx) bool {
		if err := e.box.Enqueue(context.Background(), tx, task, opts...); err != nil {
			e.t.Fatal(err)
		}
		return true
	})
}

// relay returns a relay that logs nothing.
func (e *env) relay(opts ...outbox.RelayOption) *outbox.Relay {
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	return outbox.NewRelay(e.box, e.db, e.client, append([]outbox.RelayOption{outbox.WithLogger(quiet)}, opts...)...)
}

// start starts a relay until the test ends.
func (e *env) start(r *outbox.Relay) *outbox.Relay {
	e.t.Helper()
	if err := r.Start(); err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(r.Shutdown)
	return r
}

// relayAll moves rows with a relay until none is waiting.
func (e *env) relayAll(r *outbox.Relay) {
	e.t.Helper()
	for {
		more, err := r.RelayBatch(context.Background())
		if err != nil {
			e.t.Fatal(err)
		}
		if !more {
			return
		}
	}
}

// stats returns the figures of the table.
func (e *env) stats() outbox.Stats {
	e.t.Helper()
	s, err := e.box.Stats(context.Background(), e.db)
	if err != nil {
		e.t.Fatal(err)
	}
	return s
}

// failed returns the failed rows.
func (e *env) failed() (rows []outbox.FailedRow) {
	e.t.Helper()
	for r, err := range e.box.Failed(context.Background(), e.db) {
		if err != nil {
			e.t.Fatal(err)
		}
		rows = append(rows, r)
	}
	return rows
}

// pending returns the pending tasks of the default queue, oldest first.
func (e *env) pending() []*asynq.TaskInfo {
	e.t.Helper()
	tasks, err := e.inspector.ListPendingTasks("default", asynq.PageSize(10_000))
	if err != nil && !errors.Is(err, asynq.ErrQueueNotFound) {
		e.t.Fatal(err)
	}
	return tasks
}
