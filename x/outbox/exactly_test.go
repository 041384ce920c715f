package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/outbox"
)

// TestExactlyOnce commits and rolls back transactions while relays and Redis are killed. The tasks
// must be those of the committed transactions, each once. OUTBOX_TRANSACTIONS sets the number of
// transactions per database.
func TestExactlyOnce(t *testing.T) {
	t.Parallel()
	proctest.NeedRedis(t)
	transactions := numberOfTransactions(t)
	for _, d := range []outbox.Dialect{outbox.SQLite, outbox.Postgres, outbox.MySQL} {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, d)
			e.useServer("--appendonly", "yes", "--appendfsync", "always")
			newCrashTest(e, transactions).run()
		})
	}
}

func numberOfTransactions(t *testing.T) int {
	t.Helper()
	text := os.Getenv("OUTBOX_TRANSACTIONS")
	if text == "" {
		return 1500
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestExactlyOnceOverDatabaseCrashes is TestExactlyOnce with a database server that is killed, too.
// The tasks must be those of the rows that are there in the end: a transaction may have committed
// although its caller got an error.
func TestExactlyOnceOverDatabaseCrashes(t *testing.T) {
	t.Parallel()
	proctest.NeedRedis(t)
	transactions := numberOfTransactions(t)
	for d, server := range map[outbox.Dialect]*sqlServer{outbox.Postgres: newPostgres(), outbox.MySQL: newMariaDB()} {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			t.Cleanup(func() {
				if err := server.stop(); err != nil {
					t.Error(err)
				}
			})
			e := newEnvOn(t, d, server.driver, server.database(t))
			e.useServer("--appendonly", "yes", "--appendfsync", "always")
			c := newCrashTest(e, transactions)
			c.database = server
			c.run()
		})
	}
}

// crashTest is a run of TestExactlyOnce.
type crashTest struct {
	*env
	transactions int
	database     *sqlServer // to kill, or nil
	began        time.Time
	relays       []*child
	next         atomic.Int64 // number of the next transaction
	written      atomic.Bool  // all transactions have ended
	crashes      atomic.Int64 // of the database

	mu                    sync.Mutex
	committed, rolledBack map[string]bool
	seen                  map[string]int // tasks by payload
	errs                  []error
}

func newCrashTest(e *env, transactions int) *crashTest {
	return &crashTest{
		env: e, transactions: transactions, began: time.Now(),
		committed: make(map[string]bool), rolledBack: make(map[string]bool), seen: make(map[string]int),
	}
}

const (
	writers = 4
	relays  = 4
	// rolledBack is the percentage of transactions that are rolled back.
	rolledBack = 30
)

func (c *crashTest) run() {
	c.exec("CREATE TABLE orders (id VARCHAR(64) NOT NULL PRIMARY KEY)")
	cfg := c.config()
	cfg.Epoch = c.began
	for range relays {
		c.relays = append(c.relays, startChild(c.t, cfg))
	}
	defer func() {
		for _, r := range c.relays {
			r.kill()
		}
	}()
	var writing, consuming sync.WaitGroup
	for range writers {
		writing.Go(c.write)
	}
	go func() {
		writing.Wait()
		c.written.Store(true)
	}()
	ctx, stop := context.WithCancel(context.Background())
	consuming.Go(func() { c.consume(ctx) })
	kills, outages := c.crash(cfg)
	stop()
	consuming.Wait()
	c.consumePending()
	c.check(kills, outages)
}

// write executes transactions, more than their number if the database has not crashed yet.
func (c *crashTest) write() {
	for {
		n := c.next.Add(1)
		if n > int64(c.transactions) && (c.database == nil || c.crashes.Load() > 0) {
			return
		}
		name, commit := fmt.Sprint("order-", n), rand.IntN(100) >= rolledBack
		err := c.transaction(name, commit)
		for try := 1; err != nil && c.database != nil && try < 6000; try++ {
			time.Sleep(10 * time.Millisecond) // the server is down
			name = fmt.Sprint("order-", n, "-", try)
			err = c.transaction(name, commit)
		}
		c.mu.Lock()
		switch {
		case err != nil:
			c.errs = append(c.errs, fmt.Errorf("transaction %d: %w", n, err))
		case commit:
			c.committed[name] = true
		default:
			c.rolledBack[name] = true
		}
		c.mu.Unlock()
	}
}

func (c *crashTest) transaction(name string, commit bool) error {
	ctx := context.Background()
	tx, err := c.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // without effect after Commit
	if _, err := tx.ExecContext(ctx, "INSERT INTO orders (id) VALUES ('"+name+"')"); err != nil {
		return err
	}
	if err := c.box.Enqueue(ctx, tx, asynq.NewTask("order", []byte(name))); err != nil {
		return err
	}
	if !commit {
		return tx.Rollback()
	}
	return tx.Commit()
}

// crash kills a random relay or Redis again and again until all rows are relayed.
func (c *crashTest) crash(cfg childConfig) (kills, outages int) {
	for !c.written.Load() || c.waiting() > 0 {
		time.Sleep(time.Duration(50+rand.IntN(200)) * time.Millisecond) // the load continues meanwhile
		if kills%5 == 4 {
			c.server.Kill()
			time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
			c.server.Restart(c.t)
			outages++
		}
		if kills%2 == 1 && c.database != nil && !c.written.Load() {
			c.database.crash(c.t)
			c.crashes.Add(1)
		}
		i := rand.IntN(relays)
		c.relays[i].kill()
		c.relays[i] = startChild(c.t, cfg)
		kills++
	}
	c.db.SetMaxIdleConns(0) // closes connections to a killed server
	return kills, outages
}

// waiting returns the number of waiting rows. The first calls after a crash may fail.
func (c *crashTest) waiting() (n int) {
	proctest.Until(c.t, "the database to reply", func() error {
		s, err := c.box.Stats(context.Background(), c.db)
		n = s.Waiting
		return err
	})
	return n
}

// consume deletes pending tasks, as workers do, so that only their idempotency keys are left.
func (c *crashTest) consume(ctx context.Context) {
	for ctx.Err() == nil {
		c.consumePending()
		time.Sleep(10 * time.Millisecond)
	}
}

// consumePending deletes and counts the tasks that are pending.
func (c *crashTest) consumePending() {
	var tasks []*asynq.TaskInfo
	c.untilReply(func() (err error) {
		if tasks, err = c.inspector.ListPendingTasks("default", asynq.PageSize(1000)); errors.Is(err, asynq.ErrQueueNotFound) {
			err = nil
		}
		return err
	})
	for _, info := range tasks {
		c.untilReply(func() error {
			err := c.inspector.DeleteTask("default", info.ID)
			if errors.Is(err, asynq.ErrTaskNotFound) { // the reply of the last call was lost
				return nil
			}
			return err
		})
		c.mu.Lock()
		c.seen[string(info.Payload)]++
		c.mu.Unlock()
	}
	if len(tasks) == 1000 {
		c.consumePending()
	}
}

// untilReply repeats a call until Redis is up.
func (c *crashTest) untilReply(call func() error) {
	for range 6000 {
		err := call()
		if err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errs = append(c.errs, errors.New("no reply from Redis"))
}

// check compares the transactions with the tasks.
func (c *crashTest) check(kills, outages int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, err := range c.errs {
		c.t.Error(err)
	}
	if rows := c.failed(); len(rows) > 0 {
		c.t.Errorf("%d failed rows, the first: %+v", len(rows), rows[0])
	}
	orders := c.names("SELECT id FROM orders")
	for _, name := range orders {
		if c.database != nil {
			c.committed[name] = true // also if the reply was lost
		}
		if c.rolledBack[name] {
			c.t.Errorf("%s was rolled back, and is in the database", name)
		}
	}
	lost, twice, extra := 0, 0, 0
	for name := range c.committed {
		if n := c.seen[name]; n == 0 {
			lost++
		} else if n > 1 {
			twice++
		}
	}
	for name := range c.seen {
		if !c.committed[name] {
			extra++
		}
	}
	if lost+twice+extra > 0 || len(c.committed)+len(c.rolledBack) < c.transactions {
		c.t.Errorf("%d tasks were lost, %d created twice, %d created without a commit", lost, twice, extra)
	}
	if c.database != nil && c.crashes.Load() == 0 {
		c.t.Error("the database was never killed")
	}
	if len(orders) != len(c.committed) {
		c.t.Errorf("%d orders, want %d", len(orders), len(c.committed))
	}
	c.t.Logf("%d transactions, %d committed, %d rolled back, %d tasks; %d relays, %d times Redis and %d times the database killed in %v",
		c.transactions, len(c.committed), len(c.rolledBack), len(c.seen), kills, outages, c.crashes.Load(), time.Since(c.began).Round(time.Millisecond))
}
