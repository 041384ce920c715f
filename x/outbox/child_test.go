package outbox_test

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/outbox"
)

// childEnv holds the configuration of a child process, which is the test binary as a relay or as a
// worker. It runs until SIGTERM or SIGKILL.
const childEnv = "OUTBOX_TEST_CHILD"

// childConfig configures a child.
type childConfig struct {
	Worker  bool // otherwise a relay
	Dialect outbox.Dialect
	Driver  string
	DSN     string
	Redis   string
	Epoch   time.Time // when the fast clock of relays starts
}

// fastClock is how much faster the clock of relays runs, so that claims of killed ones expire soon.
const fastClock = 15

// lease is short so that tasks of killed workers are recovered soon, but longer than a busy machine
// stops the workers.
const lease = 4 * time.Second

func runChild() int {
	if err := serveChild(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func serveChild() error {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1) // the parent has ended
	}()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var cfg childConfig
	if err := json.Unmarshal([]byte(os.Getenv(childEnv)), &cfg); err != nil {
		return err
	}
	db, err := sql.Open(cfg.Driver, cfg.DSN)
	if err != nil {
		return err
	}
	box := outbox.New(cfg.Dialect)
	redis := asynq.RedisClientOpt{Addr: cfg.Redis}
	if cfg.Worker {
		return work(ctx, redis, db, box)
	}
	box.SetNow(func() time.Time { return cfg.Epoch.Add(fastClock * time.Since(cfg.Epoch)) })
	client := asynq.NewClient(redis)
	relay := outbox.NewRelay(box, db, client, outbox.WithPollInterval(20*time.Millisecond), outbox.WithBatchSize(100))
	if err := relay.Start(); err != nil {
		return err
	}
	fmt.Println("ready")
	<-ctx.Done()
	relay.Shutdown()
	return nil
}

// work runs tasks whose effect is a row of the table effects.
func work(ctx context.Context, redis asynq.RedisClientOpt, db *sql.DB, box *outbox.Outbox) error {
	server := asynq.NewServer(redis, asynq.Config{Concurrency: 4, LeaseDuration: lease, LogLevel: asynq.ErrorLevel})
	err := server.Start(asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		if err := effect(ctx, db, box, task); err != nil {
			return err
		}
		fmt.Println("committed", string(task.Payload())) // one write, which survives a kill
		time.Sleep(5 * time.Millisecond)                 // where the parent kills the process
		return nil
	}))
	if err != nil {
		return err
	}
	fmt.Println("ready")
	<-ctx.Done()
	server.Shutdown()
	return nil
}

// effect inserts the payload of a task into the table effects, once.
func effect(ctx context.Context, db *sql.DB, box *outbox.Outbox, task *asynq.Task) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // without effect after Commit
	fresh, err := box.Once(ctx, tx, task)
	if err != nil || !fresh {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO effects (name) VALUES ('"+string(task.Payload())+"')"); err != nil {
		return err
	}
	return tx.Commit()
}

// child is a running child process.
type child struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	lines  chan string // what it prints, after "ready"; closed at its end
	stderr lockedBuffer
}

// startChild starts a child process and waits until it is ready.
func startChild(t testing.TB, cfg childConfig) *child {
	t.Helper()
	config, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: exec.Command(os.Args[0]), lines: make(chan string, 10_000)}
	c.cmd.Env = append(os.Environ(), childEnv+"="+string(config))
	c.cmd.Stderr = &c.stderr
	proctest.DieWithParent(c.cmd)
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.lines)
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			c.lines <- scanner.Text()
		}
	}()
	if line := <-c.lines; line != "ready" {
		t.Fatalf("the child printed %q:\n%s", line, c.stderr.String())
	}
	return c
}

// kill ends the process with SIGKILL.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // it may have ended
	_ = c.stdin.Close()      // the same
	for range c.lines {
	}
	_ = c.cmd.Wait() // reports the kill
}

// config returns the configuration of children of an environment.
func (e *env) config() childConfig {
	return childConfig{Dialect: e.dialect, Driver: e.driver, DSN: e.dsn, Redis: e.redis.Addr}
}

// names returns the texts of a column, in no order.
func (e *env) names(query string) (names []string) {
	e.t.Helper()
	rows, err := e.db.QueryContext(context.Background(), query)
	if err != nil {
		e.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			e.t.Fatal(err)
		}
		names = append(names, strings.TrimSpace(name))
	}
	if err := rows.Err(); err != nil {
		e.t.Fatal(err)
	}
	return names
}
