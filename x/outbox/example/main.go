// Command example is a web application that stores an order and enqueues its task in one
// transaction, together with a relay and a worker. It needs no server: its database is SQLite, its
// Redis is embedded.
//
//	go run ./x/outbox/example
//	curl -d tea http://127.0.0.1:8080/orders
//	curl http://127.0.0.1:8080/orders
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/alicebob/miniredis/v2"
	_ "modernc.org/sqlite"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/outbox"
)

func main() {
	addr := flag.String("listen", "127.0.0.1:8080", "host:port to listen on")
	flag.Parse()
	if err := run(*addr); err != nil {
		log.Fatal(err)
	}
}

// run runs the application until Ctrl-C.
func run(addr string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	log.Printf("listening at http://%s/orders", l.Addr())
	return serve(ctx, l)
}

// serve runs the application until ctx ends.
func serve(ctx context.Context, l net.Listener) error {
	dir, err := os.MkdirTemp("", "asynq-outbox-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	db, err := openDatabase(ctx, filepath.Join(dir, "shop.db"))
	if err != nil {
		return err
	}
	defer db.Close()
	embedded, err := miniredis.Run()
	if err != nil {
		return err
	}
	defer embedded.Close()
	redis := asynq.RedisClientOpt{Addr: embedded.Addr()}
	client := asynq.NewClient(redis)
	defer client.Close()

	box := outbox.New(outbox.SQLite)
	relay := outbox.NewRelay(box, db, client)
	if err := relay.Start(); err != nil {
		return err
	}
	defer relay.Shutdown()

	shop := &shop{db, box, relay}
	worker := asynq.NewServer(redis, asynq.Config{Concurrency: 4, LogLevel: asynq.WarnLevel})
	mux := asynq.NewServeMux()
	mux.HandleFunc("order:ship", shop.ship)
	if err := worker.Start(mux); err != nil {
		return err
	}
	defer worker.Shutdown()

	web := &http.Server{Handler: shop.handler(), ReadHeaderTimeout: time.Second}
	stop := context.AfterFunc(ctx, func() { _ = web.Close() }) // ends Serve
	defer stop()
	if err := web.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// openDatabase creates the tables.
func openDatabase(ctx context.Context, file string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	statements := []string{"CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT NOT NULL, parcels INTEGER NOT NULL DEFAULT 0)"}
	for _, migration := range outbox.Schema(outbox.SQLite) { // usually with the migrations of the program
		statements = append(statements, migration.Up...)
	}
	for _, statement := range statements {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	return db, nil
}

type shop struct {
	db    *sql.DB
	box   *outbox.Outbox
	relay *outbox.Relay
}

func (s *shop) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", func(w http.ResponseWriter, r *http.Request) {
		item, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1000))
		if err == nil {
			err = s.order(r.Context(), string(item))
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusAccepted)
	})
	mux.HandleFunc("GET /orders", func(w http.ResponseWriter, r *http.Request) {
		if err := s.list(r.Context(), w); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	return mux
}

// order stores an order and its task.
func (s *shop) order(ctx context.Context, item string) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // without effect after Commit
	var id int64
	if err := tx.QueryRowContext(ctx, "INSERT INTO orders (item) VALUES (?) RETURNING id", item).Scan(&id); err != nil {
		return err
	}
	if err := s.box.Enqueue(ctx, tx, asynq.NewTask("order:ship", fmt.Append(nil, id))); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	s.relay.Notify()
	return nil
}

// ship sends the parcel of an order, once.
func (s *shop) ship(ctx context.Context, task *asynq.Task) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // without effect after Commit
	if fresh, err := s.box.Once(ctx, tx, task); err != nil || !fresh {
		return err
	}
	if _, err := tx.ExecContext(ctx, "UPDATE orders SET parcels = parcels + 1 WHERE id = ?", string(task.Payload())); err != nil {
		return err
	}
	return tx.Commit()
}

// list writes one line per order.
func (s *shop) list(ctx context.Context, w io.Writer) error {
	rows, err := s.db.QueryContext(ctx, "SELECT id, item, parcels FROM orders ORDER BY id")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id, parcels int64
		var item string
		if err := rows.Scan(&id, &item, &parcels); err != nil {
			return err
		}
		fmt.Fprintf(w, "order %d: %s, parcels sent: %d\n", id, item, parcels)
	}
	return rows.Err()
}
