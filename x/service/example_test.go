package service_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alicebob/miniredis/v2"

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

// A Service is an http.Handler: a program can serve it beside pages of its own. Here a client
// enqueues a task by its API.
func ExampleService_ServeHTTP() {
	redis := miniredis.NewMiniRedis()
	if err := redis.Start(); err != nil {
		log.Fatal(err)
	}
	defer redis.Close()

	s, err := service.New(service.Config{
		RedisConnOpt: asynq.RedisClientOpt{Addr: redis.Addr()},
		Queues:       map[string]service.QueueConfig{"email": {}},
		Tokens: []service.Token{
			{Name: "shop", Secret: "a-secret-of-at-least-16-bytes", Scopes: []service.Scope{service.Enqueue}, Queues: []string{"email"}},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := s.Start(); err != nil {
		log.Fatal(err)
	}
	defer func() { _ = s.Shutdown(context.Background()) }()

	task := strings.NewReader(`{"queue": "email", "type": "welcome", "payload": {"user_id": 42}}`)
	req := httptest.NewRequest(http.MethodPost, "/v1/tasks", task)
	req.Header.Set("Authorization", "Bearer a-secret-of-at-least-16-bytes")
	res := httptest.NewRecorder()
	s.ServeHTTP(res, req)
	fmt.Println(res.Code, http.StatusText(res.Code))
	// Output: 201 Created
}
