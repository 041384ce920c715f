// Command producer is a web service that enqueues a task for each email.
//
//	REDIS_URL=redis://127.0.0.1:6379 go run ./examples/web/producer -addr 127.0.0.1:8080
//	curl -i -d '{"to": "ada@example.com", "subject": "Welcome"}' http://127.0.0.1:8080/emails
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/asynq-go/asynq"
)

// shutdownTimeout is the time that requests in flight have to finish.
const shutdownTimeout = 10 * time.Second

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "`address` to listen on")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *addr)
	stop()
	if err != nil {
		slog.Error("producer failed", "error", err)
		os.Exit(1)
	}
}

// run serves on addr until ctx ends, then lets the requests in flight finish.
func run(ctx context.Context, addr string) error {
	redis, err := asynq.ParseRedisURI(cmp.Or(os.Getenv("REDIS_URL"), "redis://127.0.0.1:6379"))
	if err != nil {
		return err
	}
	client := asynq.NewClient(redis)
	defer client.Close()
	if err := client.Ping(); err != nil {
		return fmt.Errorf("connect to Redis: %w", err)
	}

	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler:           newHandler(client),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      10 * time.Second,
		IdleTimeout:       time.Minute,
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	slog.Info("listening", "addr", listener.Addr().String())

	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	slog.Info("shutting down")
	// ctx has ended, so the shutdown needs a context of its own.
	shutdownCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	err = server.Shutdown(shutdownCtx)
	if serveErr := <-served; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	return err
}
