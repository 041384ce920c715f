package outbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/alicebob/miniredis/v2"
	"github.com/jackc/pgx/v5"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/outbox"
)

// placeOrder changes the database and enqueues a task in one transaction.
func placeOrder(ctx context.Context, db *sql.DB, box *outbox.Outbox, relay *outbox.Relay, item string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // without effect after Commit
	if _, err := tx.ExecContext(ctx, "INSERT INTO orders (item) VALUES (?)", item); err != nil {
		return err
	}
	task := asynq.NewTask("order:confirm", []byte(item), asynq.MaxRetry(5))
	if err := box.Enqueue(ctx, tx, task, asynq.Queue("mail")); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	relay.Notify() // optional: the relay does not wait for its next poll
	return nil
}

// confirmations returns a handler whose effects in the database happen once.
func confirmations(db *sql.DB, box *outbox.Outbox) asynq.HandlerFunc {
	return func(ctx context.Context, task *asynq.Task) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // without effect after Commit
		if fresh, err := box.Once(ctx, tx, task); err != nil || !fresh {
			return err // nil if an earlier attempt has committed
		}
		if _, err := tx.ExecContext(ctx, "UPDATE orders SET confirmed = confirmed + 1 WHERE item = ?", string(task.Payload())); err != nil {
			return err
		}
		return tx.Commit()
	}
}

// listen notifies a relay of rows that any program commits, if its box was created WithNotify. Each
// call needs a connection of its own.
func listen(dsn string, box *outbox.Outbox) outbox.RelayOption {
	return outbox.WithListener(func(ctx context.Context, notify func()) error {
		conn, err := pgx.Connect(ctx, dsn)
		if err != nil {
			return err
		}
		defer conn.Close(context.WithoutCancel(ctx))
		if _, err := conn.Exec(ctx, "LISTEN "+box.Channel()); err != nil {
			return err
		}
		notify() // of rows that were committed before
		for {
			if _, err := conn.WaitForNotification(ctx); err != nil {
				return err
			}
			notify()
		}
	})
}

// An order and its task are committed together. A worker confirms the order.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	fake, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	defer fake.Close()
	redis := asynq.RedisClientOpt{Addr: fake.Addr()}

	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "shop.db")+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_txlock=immediate")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	statements := []string{"CREATE TABLE orders (item TEXT, confirmed INTEGER DEFAULT 0)"}
	for _, migration := range outbox.Schema(outbox.SQLite) { // usually with the migrations of the program
		statements = append(statements, migration.Up...)
	}
	for _, statement := range statements {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			log.Fatal(err)
		}
	}

	client := asynq.NewClient(redis)
	defer client.Close()
	box := outbox.New(outbox.SQLite)
	relay := outbox.NewRelay(box, db, client)
	if err := relay.Start(); err != nil {
		log.Fatal(err)
	}
	defer relay.Shutdown()
	if err := placeOrder(ctx, db, box, relay, "tea"); err != nil {
		log.Fatal(err)
	}

	handle, done := confirmations(db, box), make(chan struct{})
	server := asynq.NewServer(redis, asynq.Config{Queues: map[string]int{"mail": 1}, LogLevel: asynq.FatalLevel})
	err = server.Start(asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		defer close(done)
		return handle(ctx, task)
	}))
	if err != nil {
		log.Fatal(err)
	}
	<-done
	server.Shutdown()

	var confirmed int
	if err := db.QueryRowContext(ctx, "SELECT confirmed FROM orders WHERE item = 'tea'").Scan(&confirmed); err != nil {
		log.Fatal(err)
	}
	fmt.Println("confirmed:", confirmed)
	// Output: confirmed: 1
}
