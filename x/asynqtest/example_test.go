package asynqtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/asynqtest"
)

// signUp is the program under test: it sends a welcome mail at once, and a survey a day later.
func signUp(client *asynq.Client, email string) error {
	payload, err := json.Marshal(map[string]string{"to": email})
	if err != nil {
		return err
	}
	if _, err := client.Enqueue(asynq.NewTask("email:welcome", payload), asynq.MaxRetry(3)); err != nil {
		return err
	}
	_, err = client.Enqueue(asynq.NewTask("email:survey", payload), asynq.ProcessIn(24*time.Hour))
	return err
}

func Example() {
	t, end := exampleT() // in a test: the *testing.T
	defer end()
	b := asynqtest.Run(t)

	if err := signUp(b.Client(), "ada@example.com"); err != nil {
		t.Fatal(err)
	}
	b.AssertEnqueued(t, asynqtest.Task{
		Type:    "email:welcome",
		Payload: map[string]string{"to": "ada@example.com"},
		Options: []asynq.Option{asynq.MaxRetry(3)},
	})

	mux := asynq.NewServeMux()
	mux.HandleFunc("email:", func(_ context.Context, task *asynq.Task) error {
		fmt.Printf("%s: %s\n", task.Type(), task.Payload())
		return nil
	})
	fmt.Println("ran:", len(b.Drain(t, mux)))
	b.Advance(24 * time.Hour)
	fmt.Println("ran a day later:", len(b.Drain(t, mux)))
	// Output:
	// email:welcome: {"to":"ada@example.com"}
	// ran: 1
	// email:survey: {"to":"ada@example.com"}
	// ran a day later: 1
}

func ExampleBroker_Drain() {
	t, end := exampleT() // in a test: the *testing.T
	defer end()
	b := asynqtest.Run(t)
	if _, err := b.Client().Enqueue(asynq.NewTask("import", nil), asynq.TaskID("42"), asynq.MaxRetry(2)); err != nil {
		t.Fatal(err)
	}

	outcomes := b.Drain(t, asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		if failed, _ := asynq.GetRetryCount(ctx); failed == 0 {
			return errors.New("out of order")
		}
		_, err := task.ResultWriter().Write([]byte("7 rows"))
		return err
	}))
	for _, o := range outcomes {
		fmt.Println(o)
	}
	fmt.Printf("%s\n", outcomes[1].Result)
	// Output:
	// import 42 in queue "default", attempt 1: retry (out of order)
	// import 42 in queue "default", attempt 2: done
	// 7 rows
}

func ExampleLeaveRetries() {
	t, end := exampleT() // in a test: the *testing.T
	defer end()
	b := asynqtest.Run(t)
	if _, err := b.Client().Enqueue(asynq.NewTask("import", nil)); err != nil {
		t.Fatal(err)
	}
	handler := asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return errors.New("out of order") })
	tenMinutes := func(cfg *asynq.Config) {
		cfg.RetryDelayFunc = func(int, error, *asynq.Task) time.Duration { return 10 * time.Minute }
	}

	b.Drain(t, handler, asynqtest.LeaveRetries(), asynqtest.Configure(tenMinutes))
	info := b.AssertEnqueued(t, asynqtest.Task{State: asynq.TaskStateRetry, ProcessIn: 10 * time.Minute})
	fmt.Println(info.LastErr)
	// Output:
	// out of order
}

func ExampleBroker_AssertNotEnqueued() {
	t, end := exampleT() // in a test: the *testing.T
	defer end()
	b := asynqtest.Run(t)
	b.AssertNotEnqueued(t, asynqtest.Task{Type: "email:welcome"}) // none of this type
	b.AssertNotEnqueued(t, asynqtest.Task{})                      // none at all
	fmt.Println(len(b.Enqueued()))
	// Output:
	// 0
}

// exampleT replaces the *testing.T of a test in examples.
func exampleT() (t testing.TB, end func()) {
	e := &example{}
	return e, func() {
		for i := len(e.cleanups) - 1; i >= 0; i-- {
			e.cleanups[i]()
		}
	}
}

type example struct {
	testing.TB
	cleanups []func()
}

func (e *example) Helper()                   {}
func (e *example) Cleanup(f func())          { e.cleanups = append(e.cleanups, f) }
func (e *example) Logf(f string, a ...any)   { log.Printf(f, a...) }
func (e *example) Fatal(a ...any)            { log.Fatal(a...) }
func (e *example) Fatalf(f string, a ...any) { log.Fatalf(f, a...) }
