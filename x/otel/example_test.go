package asynqotel_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/flow"
	"github.com/asynq-go/asynq/x/asynqtest"
	asynqotel "github.com/asynq-go/asynq/x/otel"
)

func ExampleNewClient() {
	redis := asynq.RedisClientOpt{Addr: "localhost:6379"}

	client := asynqotel.NewClient(asynq.NewClient(redis))
	defer client.Close()

	http.HandleFunc("/sign-up", func(w http.ResponseWriter, r *http.Request) {
		// The span of the request is in its context, and becomes the parent.
		_, err := client.EnqueueContext(r.Context(), asynq.NewTask("mail:welcome", []byte(r.FormValue("email"))))
		if err != nil {
			http.Error(w, "try again", http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusAccepted)
	})
}

func ExampleNewMiddleware() {
	mux := asynq.NewServeMux()
	mux.Use(asynqotel.NewMiddleware()) // first: it is the outermost then
	mux.HandleFunc("mail:welcome", func(ctx context.Context, task *asynq.Task) error {
		return sendMail(ctx, string(task.Payload())) // ctx carries the span of this attempt
	})
}

func ExampleClient_StartFlow() {
	client := asynqotel.NewClient(asynq.NewClient(asynq.RedisClientOpt{Addr: "localhost:6379"}))
	defer client.Close()
	ctx := context.Background()

	f := flow.New("order-42")
	charge := f.Add("charge", asynq.NewTask("order:charge", nil))
	f.Add("ship", asynq.NewTask("order:ship", nil)).After(charge)
	_, err := client.StartFlow(ctx, f)
	if err != nil {
		log.Print(err)
	}
}

func ExampleEnqueueHeaders() {
	redis := asynq.RedisClientOpt{Addr: "localhost:6379"}

	scheduler := asynq.NewScheduler(redis, &asynq.SchedulerOpts{
		EnqueueHeaders: asynqotel.EnqueueHeaders(),
	})
	if err := scheduler.Run(); err != nil {
		log.Fatal(err)
	}
}

func ExampleNewGroupAggregator() {
	redis := asynq.RedisClientOpt{Addr: "localhost:6379"}
	aggregate := asynq.GroupAggregatorFunc(func(group string, tasks []*asynq.Task) *asynq.Task {
		return asynq.NewTask("digest", []byte(fmt.Sprint(len(tasks))))
	})

	srv := asynq.NewServer(redis, asynq.Config{
		GroupAggregator: asynqotel.NewGroupAggregator(aggregate),
	})
	if err := srv.Run(asynq.NewServeMux()); err != nil {
		log.Fatal(err)
	}
}

func Example() {
	t, end := exampleT() // in a test: the *testing.T
	defer end()
	b := asynqtest.Run(t)
	spans := tracetest.NewInMemoryExporter()
	provider := asynqotel.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)))

	client := asynqotel.NewClient(b.Client(), provider)
	if _, err := client.Enqueue(asynq.NewTask("mail:welcome", nil), asynq.Queue("mail")); err != nil {
		t.Fatal(err)
	}
	handler := asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil })
	b.Drain(t, asynqotel.NewMiddleware(provider)(handler))

	send, process := spans.GetSpans()[0], spans.GetSpans()[1]
	fmt.Println(send.Name)
	fmt.Println(process.Name, "linked:", process.Links[0].SpanContext.SpanID() == send.SpanContext.SpanID())
	// Output:
	// enqueue mail
	// process mail linked: true
}

func sendMail(context.Context, string) error { return nil }

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
