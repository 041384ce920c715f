package service_test

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/service"
)

func Example() {
	s, err := service.New(service.Config{
		RedisConnOpt: asynq.RedisClientOpt{Addr: "localhost:6379"},
		Listen:       "localhost:8600",
		Queues:       map[string]service.QueueConfig{"invoices": {MaxRun: 1}},
		Tokens: []service.Token{
			{Name: "shop", Secret: os.Getenv("SHOP_TOKEN"), Scopes: []service.Scope{service.Enqueue, service.Read}, Queues: []string{"*"}},
			{Name: "mailer", Secret: os.Getenv("MAILER_TOKEN"), Scopes: []service.Scope{service.Work}, Queues: []string{"email:*"}},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := s.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
