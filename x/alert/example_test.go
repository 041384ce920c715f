package alert_test

import (
	"context"
	"log"
	"os/signal"
	"syscall"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/alert"
	"github.com/asynq-go/asynq/x/health"
)

func ExampleNotifier_Run() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	inspector := asynq.NewInspector(asynq.RedisClientOpt{Addr: "localhost:6379"})
	defer inspector.Close()
	if err := watch(ctx, inspector, "https://hooks.example.com/services/queues"); err != nil {
		log.Print(err)
	}
}

// watch sends alerts until ctx ends.
func watch(ctx context.Context, inspector *asynq.Inspector, url string) error {
	notifier, err := alert.New(alert.Config{
		Sinks: []alert.Sink{&alert.Slack{URL: url}},
	})
	if err != nil {
		return err
	}
	return notifier.Run(ctx, inspector, health.DefaultSettings(), 15*time.Second)
}
