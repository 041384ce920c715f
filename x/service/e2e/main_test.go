package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/service"
)

// The environment of a child that is the service.
const (
	envRedis  = "E2E_SERVICE_REDIS" // its Redis; set: this process is the service
	envListen = "E2E_SERVICE_LISTEN"
	envLease  = "E2E_SERVICE_LEASE"
)

// The secrets of the tokens of the service under test.
const (
	token     = "e2e-token-that-may-do-anything"
	readToken = "e2e-token-that-may-only-look"
)

func TestMain(m *testing.M) {
	if os.Getenv(envRedis) == "" {
		os.Exit(m.Run())
	}
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve is the service, as a process.
func serve() error {
	lease, err := time.ParseDuration(os.Getenv(envLease))
	if err != nil {
		return err
	}
	all := []service.Scope{service.Enqueue, service.Work, service.Read, service.Manage}
	s, err := service.New(service.Config{
		RedisConnOpt: asynq.RedisClientOpt{Addr: os.Getenv(envRedis)},
		Queues:       map[string]service.QueueConfig{"ordered": {MaxRun: 1}},
		Tokens: []service.Token{
			{Name: "all", Secret: token, Scopes: all, Queues: []string{"*"}},
			{Name: "reader", Secret: readToken, Scopes: []service.Scope{service.Read}, Queues: []string{"*"}},
		},
		Limits: service.Limits{LeaseDuration: lease, ShutdownTimeout: 5 * time.Second},
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", os.Getenv(envListen))
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return s.RunOn(ctx, l)
}
