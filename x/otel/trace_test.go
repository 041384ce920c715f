package asynqotel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/asynqtest"
)

// From the caller's span to the attempt: two traces, one link, and the baggage.
func TestEndToEnd(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	member, err := baggage.NewMember("customer", "42")
	if err != nil {
		t.Fatal(err)
	}
	bag, err := baggage.New(member)
	if err != nil {
		t.Fatal(err)
	}
	ctx, caller := k.tracer.Start(baggage.ContextWithBaggage(context.Background(), bag), "caller")
	info := k.enqueue(ctx, asynq.NewTaskWithHeaders("mail:welcome", []byte("12345"), map[string]string{"own": "1"}),
		asynq.Queue("high"), asynq.MaxRetry(4))
	caller.End()
	k.drain(func(ctx context.Context, task *asynq.Task) error {
		if got := baggage.FromContext(ctx).Member("customer").Value(); got != "42" {
			t.Errorf("the baggage is %q", got)
		}
		if h := task.Headers(); h["own"] != "1" || len(h) != 3 {
			t.Errorf("the handler sees the headers %v", h)
		}
		_, inner := k.tracer.Start(ctx, "inner")
		inner.End()
		return nil
	})

	send, process, inner := k.one("enqueue high"), k.one("process high"), k.one("inner")
	if send.SpanKind != trace.SpanKindProducer || process.SpanKind != trace.SpanKindConsumer {
		t.Errorf("the kinds are %v and %v", send.SpanKind, process.SpanKind)
	}
	if send.Parent.SpanID() != caller.SpanContext().SpanID() || inner.Parent.SpanID() != process.SpanContext.SpanID() {
		t.Error("a span has another parent")
	}
	if process.Parent.IsValid() || process.SpanContext.TraceID() == send.SpanContext.TraceID() {
		t.Error("the attempt is in the producer's trace")
	}
	linksTo(t, process, send)
	has(t, send, map[string]any{
		"messaging.system": "asynq", "messaging.operation.name": "enqueue", "messaging.operation.type": "send",
		"messaging.destination.name": "high", "messaging.message.id": info.ID, "messaging.message.body.size": 5,
		"asynq.task.type": "mail:welcome", "asynq.task.state": "pending", "error.type": nil,
	})
	has(t, process, map[string]any{
		"messaging.system": "asynq", "messaging.operation.name": "process", "messaging.operation.type": "process",
		"messaging.destination.name": "high", "messaging.message.id": info.ID, "messaging.message.body.size": 5,
		"asynq.task.type": "mail:welcome", "asynq.task.retry_count": 0, "asynq.task.max_retry": 4, "asynq.task.outcome": "success",
		"error.type": nil,
	})
	for _, s := range []tracetest.SpanStub{send, process} {
		if s.Status.Code != codes.Unset || len(s.Events) != 0 {
			t.Errorf("%s has status %v, events %v", s.Name, s.Status, s.Events)
		}
	}
}

func TestProducerAsParent(t *testing.T) {
	t.Parallel()
	k := newKit(t, WithProducerAsParent())
	k.enqueue(context.Background(), asynq.NewTask("x", nil))
	k.drain(func(context.Context, *asynq.Task) error { return nil })
	send, process := k.one("enqueue default"), k.one("process default")
	if process.Parent.SpanID() != send.SpanContext.SpanID() || process.SpanContext.TraceID() != send.SpanContext.TraceID() || !process.Parent.IsRemote() {
		t.Errorf("the parent is %v", process.Parent)
	}
	linksTo(t, process, send)
}

// The span around a server stays the parent.
func TestBaseContext(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	base, around := k.tracer.Start(context.Background(), "server")
	k.enqueue(context.Background(), asynq.NewTask("x", nil))
	k.drain(func(context.Context, *asynq.Task) error { return nil },
		asynqtest.Configure(func(cfg *asynq.Config) { cfg.BaseContext = func() context.Context { return base } }))
	process := k.one("process default")
	if process.Parent.SpanID() != around.SpanContext().SpanID() {
		t.Errorf("the parent is %v", process.Parent)
	}
	linksTo(t, process, k.one("enqueue default"))
	// It does not become the producer of a task without one.
	k.spans.Reset()
	untraced := asynq.NewTaskWithHeaders("x", nil, map[string]string{"own": "1"})
	if err := NewMiddleware(k.opts...)(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil })).ProcessTask(base, untraced); err != nil {
		t.Fatal(err)
	}
	linksTo(t, k.one("process"))
}

// Each attempt has a span with its number and its outcome.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	for name, tt := range map[string]struct {
		err       error
		panics    any
		exits     bool
		outcomes  []string
		errorType string
		text      string
	}{
		"retries":  {err: failed, outcomes: []string{"retry", "retry", "archived"}, errorType: "*errors.errorString", text: "failed"},
		"skips":    {err: fmt.Errorf("wrong: %w", asynq.SkipRetry), outcomes: []string{"archived"}, text: "wrong: skip retry for the task"},
		"revokes":  {err: asynq.RevokeTask, outcomes: []string{"revoked"}},
		"snoozes":  {err: fmt.Errorf("limited: %w", asynq.Snooze(time.Hour)), outcomes: []string{"snoozed"}},
		"panics":   {panics: "at once", outcomes: []string{"retry", "retry", "archived"}, errorType: "panic", text: "panic: at once"},
		"is wrong": {panics: failed, outcomes: []string{"retry", "retry", "archived"}, errorType: "panic", text: "panic: failed"},
		"exits":    {exits: true, outcomes: []string{"retry", "retry", "archived"}, errorType: "panic", text: "panic: runtime.Goexit was called"},
		"unknown":  {err: asynq.NotFound(context.Background(), nil), outcomes: []string{"retry", "retry", "archived"}, errorType: "handler_not_found"},
		"succeeds": {outcomes: []string{"success"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			k.enqueue(context.Background(), asynq.NewTask("x", nil), asynq.MaxRetry(2))
			handler := asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
				if tt.panics != nil {
					panic(tt.panics)
				}
				return tt.err
			})
			if tt.exits {
				// If Goexit ends the goroutine, Drain ends the test, so this test calls the handler
				// itself.
				done := make(chan struct{})
				go func() {
					defer close(done)
					_ = NewMiddleware(k.opts...)(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
						runtime.Goexit()
						return nil
					})).ProcessTask(context.Background(), asynq.NewTask("x", nil))
				}()
				<-done
				s := k.one("process")
				if s.Status.Code != codes.Error || s.Status.Description != tt.text {
					t.Errorf("the status is %v", s.Status)
				}
				return
			}
			outcomes := k.drain(handler)
			if len(outcomes) != len(tt.outcomes) {
				t.Fatalf("%d attempts: %v", len(outcomes), outcomes)
			}
			if tt.panics != nil && !asynq.IsPanicError(outcomes[0].Err) {
				t.Errorf("the server sees %v", outcomes[0].Err)
			}
			spans := k.named("process default")
			if len(spans) != len(tt.outcomes) {
				t.Fatalf("%d spans", len(spans))
			}
			for i, s := range spans {
				want := map[string]any{"asynq.task.outcome": tt.outcomes[i], "asynq.task.retry_count": i}
				if tt.errorType != "" {
					want["error.type"] = tt.errorType
				}
				has(t, s, want)
				linksTo(t, s, k.one("enqueue default"))
				if isError := s.Status.Code == codes.Error; isError != (tt.errorType+tt.text != "") || isError != (len(s.Events) == 1) {
					t.Errorf("the status is %v, %d events", s.Status, len(s.Events))
				}
				if tt.text != "" && s.Status.Description != tt.text {
					t.Errorf("the status is %q, want %q", s.Status.Description, tt.text)
				}
				if tt.panics != nil && !strings.Contains(fmt.Sprint(s.Events[0].Attributes), "TestOutcomes") {
					t.Errorf("the stack is not that of the handler: %v", s.Events[0].Attributes)
				}
			}
		})
	}
}

// A task without trace headers, or with invalid ones, is processed as usual.
func TestHeadersOfOthers(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	for _, headers := range []map[string]string{
		nil, {}, {"traceparent": "00-11111111111111111111111111111111-2222222222222222-01"}, {"otel.traceparent": "nonsense"},
		{"otel.traceparent": "", "otel.baggage": ""}, {"otel.baggage": strings.Repeat("x=1,", 10_000)}, {"otel.tracestate": "\x00"},
	} {
		if _, err := k.broker.Client().Enqueue(asynq.NewTaskWithHeaders("x", nil, headers)); err != nil {
			t.Fatal(err)
		}
		k.drain(func(_ context.Context, task *asynq.Task) error {
			if !maps.Equal(task.Headers(), headers) {
				t.Errorf("the handler sees %v, want %v", task.Headers(), headers)
			}
			return nil
		})
		linksTo(t, k.one("process default"))
		k.spans.Reset()
	}
}

// The program's headers are kept, and those of another trace are replaced.
func TestHeadersDoNotCollide(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	own := map[string]string{
		"traceparent": "mine", "tracestate": "mine", "baggage": "two suitcases",
		"otel.traceparent": "00-11111111111111111111111111111111-2222222222222222-01", "otel.tracestate": "a=1", "otel.baggage": "old=1",
	}
	task := asynq.NewTaskWithHeaders("x", nil, own, asynq.MaxRetry(7))
	info := k.enqueue(context.Background(), task, asynq.Header("late", "1"))
	for _, key := range []string{"traceparent", "tracestate", "baggage"} {
		if info.Headers[key] != own[key] {
			t.Errorf("%s is %q", key, info.Headers[key])
		}
	}
	id := k.one("enqueue default").SpanContext.TraceID().String()
	if info.Headers["otel.baggage"] != "" || info.Headers["otel.tracestate"] != "" || !strings.Contains(info.Headers["otel.traceparent"], id) {
		t.Errorf("the headers are %v", info.Headers)
	}
	if info.Headers["late"] != "1" || info.MaxRetry != 7 {
		t.Errorf("an option is lost: %+v", info)
	}
	if !maps.Equal(task.Headers(), own) {
		t.Errorf("the caller's task has changed: %v", task.Headers())
	}
	plain := newKit(t, WithHeaderPrefix(""), WithPropagator(propagation.TraceContext{}))
	if h := plain.enqueue(context.Background(), asynq.NewTask("x", nil)).Headers; h["traceparent"] == "" || len(h) != 1 {
		t.Errorf("without a prefix the headers are %v", h)
	}
}

func TestEnqueueErrors(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	task := asynq.NewTask("x", nil)
	k.enqueue(context.Background(), task, asynq.TaskID("1"), asynq.Unique(time.Hour))
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for name, tt := range map[string]struct {
		ctx  context.Context
		opt  asynq.Option
		is   error
		kind string
	}{
		"duplicate": {context.Background(), asynq.Unique(time.Hour), asynq.ErrDuplicateTask, "duplicate_task"},
		"conflict":  {context.Background(), asynq.TaskID("1"), asynq.ErrTaskIDConflict, "task_id_conflict"},
		"canceled":  {ended, asynq.TaskID("2"), context.Canceled, ""},
		"bad":       {context.Background(), asynq.Queue(" "), nil, ""},
	} {
		k.spans.Reset()
		_, err := k.client.EnqueueContext(tt.ctx, task, tt.opt)
		if err == nil || tt.is != nil && !errors.Is(err, tt.is) {
			t.Errorf("%s: error %v", name, err)
		}
		s := k.spans.GetSpans()[0]
		if s.Status.Code != codes.Error || len(s.Events) != 1 || s.Status.Description != err.Error() {
			t.Errorf("%s: the status is %v", name, s.Status)
		}
		if tt.kind != "" {
			has(t, s, map[string]any{"error.type": tt.kind, "messaging.message.id": nil})
		}
	}
	k.spans.Reset()
	if _, err := k.client.EnqueueContext(nil, task); err == nil { //nolint:staticcheck // That is what is tested.
		t.Error("no error without a context")
	}
	if _, err := k.client.Enqueue(nil); err == nil {
		t.Error("no error without a task")
	}
	if n := len(k.spans.GetSpans()); n != 0 {
		t.Errorf("%d spans of calls that were none", n)
	}
}

func TestBatch(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	tasks := []*asynq.Task{asynq.NewTask("a", nil), asynq.NewTask("b", nil), asynq.NewTask("c", nil, asynq.TaskID("taken")), nil}
	k.enqueue(context.Background(), asynq.NewTask("c", nil), asynq.TaskID("taken"))
	k.drain(func(context.Context, *asynq.Task) error { return nil })
	k.enqueue(context.Background(), asynq.NewTask("c", nil), asynq.TaskID("taken"), asynq.ProcessIn(time.Hour))
	k.spans.Reset()
	results := k.client.BatchEnqueueContext(context.Background(), tasks)
	if results[0].Err != nil || results[1].Err != nil || !errors.Is(results[2].Err, asynq.ErrTaskIDConflict) || results[3].Err == nil {
		t.Fatalf("got %v", results)
	}
	send := k.one("enqueue default")
	has(t, send, map[string]any{"messaging.batch.message_count": 4, "asynq.batch.refused": 2, "error.type": "task_id_conflict"})
	k.drain(func(context.Context, *asynq.Task) error { return nil })
	spans := k.named("process default")
	if len(spans) != 2 {
		t.Fatalf("%d attempts", len(spans))
	}
	for _, s := range spans {
		linksTo(t, s, send)
	}
	k.spans.Reset()
	k.client.BatchEnqueueContext(context.Background(), []*asynq.Task{asynq.NewTask("a", nil, asynq.Queue("low")), asynq.NewTask("a", nil)})
	has(t, k.one("enqueue"), map[string]any{"messaging.destination.name": nil, "error.type": nil})
	if got := k.client.BatchEnqueueContext(context.Background(), nil); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

// A task that replaces a group links to the tasks of the group.
func TestGroup(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	for range 2 {
		k.enqueue(context.Background(), asynq.NewTask("line", nil), asynq.Group("g"))
	}
	k.client.BatchEnqueueContext(context.Background(), []*asynq.Task{asynq.NewTask("line", nil), asynq.NewTask("line", nil)}, asynq.Group("g"))
	if _, err := k.broker.Client().Enqueue(asynq.NewTask("line", nil), asynq.Group("g")); err != nil { // enqueued without tracing
		t.Fatal(err)
	}
	sends := k.named("enqueue default")
	aggregator := asynq.GroupAggregatorFunc(func(_ string, tasks []*asynq.Task) *asynq.Task {
		return asynq.NewTaskWithHeaders("lines", []byte{byte(len(tasks))}, map[string]string{"own": "1"}, asynq.MaxRetry(3))
	})
	outcomes := k.drain(func(_ context.Context, task *asynq.Task) error {
		if task.Type() != "lines" || task.Payload()[0] != 5 || task.Headers()["own"] != "1" {
			t.Errorf("got %s %v %v", task.Type(), task.Payload(), task.Headers())
		}
		return nil
	}, asynqtest.Aggregate(NewGroupAggregator(aggregator, k.opts...)))
	if len(outcomes) != 1 || outcomes[0].Err != nil {
		t.Fatalf("got %v", outcomes)
	}
	aggregate := k.one("aggregate")
	if len(aggregate.Links) != 3 || len(sends) != 3 {
		t.Fatalf("%d links, %d producers", len(aggregate.Links), len(sends))
	}
	for _, s := range sends {
		found := false
		for _, l := range aggregate.Links {
			found = found || l.SpanContext.SpanID() == s.SpanContext.SpanID()
		}
		if !found {
			t.Errorf("no link leads to %v", s.SpanContext.SpanID())
		}
	}
	has(t, aggregate, map[string]any{"messaging.batch.message_count": 5, "asynq.group": "g", "asynq.task.type": "lines"})
	process := k.one("process default")
	linksTo(t, process, aggregate)
	has(t, process, map[string]any{"asynq.task.max_retry": 3})
}

func TestGroupAggregatorFails(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	none := asynq.GroupAggregatorFunc(func(string, []*asynq.Task) *asynq.Task { return nil })
	if got := NewGroupAggregator(none, k.opts...).Aggregate("g", []*asynq.Task{nil}); got != nil {
		t.Errorf("got %v", got)
	}
	if s := k.one("aggregate"); s.Status.Code != codes.Error {
		t.Errorf("the status is %v", s.Status)
	}
	k.spans.Reset()
	func() {
		defer func() {
			if recover() != "oh" {
				t.Error("the panic is swallowed")
			}
		}()
		panics := asynq.GroupAggregatorFunc(func(string, []*asynq.Task) *asynq.Task { panic("oh") })
		NewGroupAggregator(panics, k.opts...).Aggregate("g", nil)
	}()
	has(t, k.one("aggregate"), map[string]any{"error.type": "panic"})
}

// Each tick of a periodic task is a trace of its own.
func TestPeriodicTasks(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	ticks := make(chan *asynq.TaskInfo, 100)
	sched := asynq.NewScheduler(k.broker.RedisConnOpt(), &asynq.SchedulerOpts{
		EnqueueHeaders:  EnqueueHeaders(k.opts...),
		PostEnqueueFunc: func(info *asynq.TaskInfo, _ error) { ticks <- info },
		LogLevel:        asynq.FatalLevel,
	})
	stale := map[string]string{"otel.baggage": "old=1", "own": "1"}
	if _, err := sched.Register("@every 1s", asynq.NewTaskWithHeaders("report", nil, stale), asynq.Queue("low")); err != nil {
		t.Fatal(err)
	}
	if err := sched.Start(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		select {
		case info := <-ticks:
			if info.Headers["own"] != "1" || info.Headers["otel.baggage"] != "" || info.Headers["otel.traceparent"] == "" {
				t.Errorf("the headers are %v", info.Headers)
			}
		case <-time.After(time.Minute):
			t.Fatal("no tick")
		}
	}
	sched.Shutdown()
	creates := k.named("create low")
	k.drain(func(context.Context, *asynq.Task) error { return nil })
	spans := k.named("process low")
	if len(spans) < 2 || len(spans) != len(creates) {
		t.Fatalf("%d ticks, %d attempts", len(creates), len(spans))
	}
	for i, s := range spans {
		linksTo(t, s, creates[i])
		has(t, creates[i], map[string]any{
			"messaging.destination.name": "low", "asynq.task.type": "report", "messaging.operation.type": "create", "messaging.system": "asynq",
		})
	}
	if creates[0].SpanContext.TraceID() == creates[1].SpanContext.TraceID() {
		t.Error("two ticks are in one trace")
	}
}

// A handler whose context ends does not block its span, and an attempt that the server requeues has
// not failed.
func TestContextEnds(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	mw := NewMiddleware(k.opts...)
	for cause, want := range map[error]string{
		asynq.ErrServerClosed: OutcomeInterrupted, asynq.ErrLeaseExpired: OutcomeInterrupted,
		asynq.ErrTaskCanceled: OutcomeRetry, context.DeadlineExceeded: OutcomeRetry,
	} {
		k.spans.Reset()
		ctx, cancel := context.WithCancelCause(context.Background())
		err := mw(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
			cancel(cause)
			<-ctx.Done()
			return ctx.Err()
		})).ProcessTask(ctx, asynq.NewTask("x", nil))
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		has(t, k.one("process"), map[string]any{"asynq.task.outcome": want})
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.enqueue(context.Background(), asynq.NewTask("x", nil, nil), nil, asynq.MaxRetry(1))
	_, _ = k.client.Enqueue(asynq.NewTask("x", nil), asynq.TaskID(" "))
	k.client.BatchEnqueueContext(context.Background(), []*asynq.Task{asynq.NewTask("y", nil, asynq.Queue("low")), asynq.NewTask("x", nil), asynq.NewTask("x", nil)})
	k.drain(func(ctx context.Context, task *asynq.Task) error {
		if n, _ := asynq.GetMaxRetry(ctx); n == 1 {
			return errors.New("failed")
		}
		return nil
	})
	const (
		base    = "messaging.destination.name=default,messaging.operation.name=%s,%smessaging.system=asynq"
		refused = "error.type=*errors.errorString,"
	)
	enqueue := func(extra string) string { return fmt.Sprintf(base, "enqueue", extra) }
	for name, want := range map[string]map[string]int64{
		"messaging.client.operation.duration": {
			enqueue("messaging.operation.type=send,"): 1, refused + enqueue("messaging.operation.type=send,"): 1,
			"messaging.operation.name=enqueue,messaging.operation.type=send,messaging.system=asynq": 1,
		},
		"messaging.client.sent.messages": {
			enqueue(""): 3, refused + enqueue(""): 1, strings.Replace(enqueue(""), "default", "low", 1): 1,
		},
		"messaging.client.consumed.messages": {
			fmt.Sprintf(base, "process", ""): 4, strings.Replace(fmt.Sprintf(base, "process", ""), "default", "low", 1): 1,
		},
		"messaging.process.duration": {
			"asynq.task.outcome=success," + fmt.Sprintf(base, "process", ""):                                       2,
			"asynq.task.outcome=success," + strings.Replace(fmt.Sprintf(base, "process", ""), "default", "low", 1): 1,
			"asynq.task.outcome=retry,error.type=*errors.errorString," + fmt.Sprintf(base, "process", ""):          1,
			"asynq.task.outcome=archived,error.type=*errors.errorString," + fmt.Sprintf(base, "process", ""):       1,
		},
	} {
		if got := k.points(name); !maps.Equal(got, want) {
			t.Errorf("%s:\n got %v\nwant %v", name, got, want)
		}
	}
	typed := newKit(t, WithTaskTypeInMetrics())
	typed.enqueue(context.Background(), asynq.NewTask("x", nil))
	typed.drain(func(context.Context, *asynq.Task) error { return nil })
	for _, name := range []string{"messaging.client.operation.duration", "messaging.client.sent.messages", "messaging.client.consumed.messages", "messaging.process.duration"} {
		for set := range typed.points(name) {
			if !strings.Contains(set, "asynq.task.type=x") {
				t.Errorf("%s has %s", name, set)
			}
		}
	}
}

// Without providers nothing is exported, and everything works. Nil options keep the defaults.
func TestDefaults(t *testing.T) {
	t.Parallel()
	in := newInstrument([]Option{nil, WithTracerProvider(nil), WithMeterProvider(nil), WithPropagator(nil)})
	ctx := trace.ContextWithRemoteSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled,
	}))
	task := in.inject(ctx, asynq.NewTask("x", nil))
	if _, producer := in.extract(context.Background(), task); producer.TraceID() != (trace.TraceID{1}) {
		t.Errorf("the headers %v are read as %v", task.Headers(), producer)
	}
	if got := (carrier{"otel.", map[string]string{"otel.a": "", "b": ""}}).Keys(); len(got) != 1 || got[0] != "a" {
		t.Errorf("the keys are %v", got)
	}
	for name, f := range map[string]func(){"client": func() { NewClient(nil) }, "aggregator": func() { NewGroupAggregator(nil) }} {
		func() {
			defer func() {
				if text := fmt.Sprint(recover()); !strings.HasPrefix(text, "asynqotel: nil") {
					t.Errorf("%s: panics with %q", name, text)
				}
			}()
			f()
		}()
	}
	if set := attribute.NewSet(in.metrics.attributes("", "", nil)...); set.Len() != 0 {
		t.Errorf("got %v", set)
	}
}
