package tasks_test

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/asynqtest"
	"github.com/asynq-go/asynq/x/tasks"
)

// timeout is how long tests wait, far longer than needed.
const timeout = time.Minute

type params struct {
	User int    `json:"user"`
	Text string `json:"text,omitempty"`
}

// env is an embedded Redis with a client.
type env struct {
	*testing.T
	broker *asynqtest.Broker
	client *tasks.Client
	ctx    context.Context
}

func newEnv(t *testing.T, opts ...tasks.Option) *env {
	t.Helper()
	t.Parallel()
	b := asynqtest.Run(t)
	client := tasks.NewClient(b.RedisConnOpt(), opts...)
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	t.Cleanup(cancel)
	return &env{T: t, broker: b, client: client, ctx: ctx}
}

// start starts a worker that stops at the end of the test.
func (s *env) start(table tasks.Table, opts ...tasks.StartOption) *tasks.Worker {
	s.Helper()
	ctx, cancel := context.WithCancel(context.WithValue(s.ctx, key{}, "value"))
	w, err := tasks.Start(ctx, s.broker.RedisConnOpt(), table, opts...)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		cancel()
		w.Wait()
		<-w.Done()
	})
	return w
}

type key struct{}

// got returns a value, or ends the test if there is an error.
func got[T any](s *env) func(T, error) T {
	return func(value T, err error) T {
		s.Helper()
		if err != nil {
			s.Fatal(err)
		}
		return value
	}
}

func TestTypedTasks(t *testing.T) {
	s := newEnv(t)
	var calls []string
	middleware := func(name string) asynq.MiddlewareFunc {
		return func(next asynq.Handler) asynq.Handler {
			return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
				calls = append(calls, name)
				return next.ProcessTask(ctx, task)
			})
		}
	}
	send := tasks.Define[params]("email:send", tasks.Retention(time.Hour), tasks.MaxRetry(3))
	double := tasks.DefineResult[int, int]("double")
	raw := asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		calls = append(calls, "raw "+string(task.Payload()))
		return nil
	})
	s.start(tasks.Table{
		send.Handle(func(ctx context.Context, p params) error {
			id, _ := asynq.GetTaskID(ctx)
			calls = append(calls, fmt.Sprintf("%d %s %s %v", p.User, p.Text, id, ctx.Value(key{})))
			return nil
		}),
		double.Handle(func(_ context.Context, n int) (int, error) { return 2 * n, nil }),
		tasks.Handle("raw", raw, tasks.Retention(time.Hour)),
	}, tasks.Use(middleware("outer")), tasks.Use(middleware("inner")), tasks.Concurrency(1))

	info := got[*asynq.TaskInfo](s)(send.Enqueue(s.ctx, s.client, params{7, "hi"}, asynq.TaskID("a")))
	if info.Queue != "email:send" || info.Type != "email:send" || info.MaxRetry != 3 || string(info.Payload) != `{"user":7,"text":"hi"}` {
		t.Errorf("enqueued %+v", info)
	}
	info = got[*asynq.TaskInfo](s)(send.Wait(s.ctx, s.client, "a"))
	if info.State != asynq.TaskStateCompleted {
		t.Errorf("ended as %v", info.State)
	}
	info = got[*asynq.TaskInfo](s)(double.Enqueue(s.ctx, s.client, 21))
	if n := got[int](s)(double.Wait(s.ctx, s.client, info.ID)); n != 42 {
		t.Errorf("result %d", n)
	}
	info = got[*asynq.TaskInfo](s)(s.client.Enqueue(s.ctx, tasks.Request{
		Name: "raw", Params: []int{1}, Options: []asynq.Option{asynq.Retention(time.Hour)},
	}))
	got[*asynq.TaskInfo](s)(s.client.Wait(s.ctx, "raw", info.ID))
	if all := strings.Join(calls, ", "); all != "outer, inner, 7 hi a value, outer, inner, outer, inner, raw [1]" {
		t.Errorf("calls: %s", all)
	}
}

func TestWorkerPublishesItsTasks(t *testing.T) {
	s := newEnv(t)
	nothing := asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil })
	s.start(tasks.Table{tasks.Handle("b", nothing), tasks.Handle("a", nothing)})
	for {
		servers := got[[]*asynq.ServerInfo](s)(s.broker.Inspector().Servers())
		if len(servers) == 1 {
			if names := fmt.Sprint(servers[0].Patterns); names != "[a b]" {
				t.Errorf("the worker publishes %s", names)
			}
			return
		}
		select {
		case <-s.ctx.Done():
			t.Fatal("no server is listed")
		case <-time.After(time.Millisecond): // polls
		}
	}
}

func TestFailures(t *testing.T) {
	s := newEnv(t)
	send := tasks.Define[params]("send")
	double := tasks.DefineResult[int, any]("double", tasks.MaxRetry(0))
	s.start(tasks.Table{
		send.Handle(func(context.Context, params) error { return errors.New("mail is down") }),
		double.Handle(func(_ context.Context, n int) (any, error) {
			if n == 1 {
				return nil, errors.New("no")
			}
			return func() {}, nil
		}),
	})
	for _, test := range []struct {
		task  *asynq.Task
		wants string
	}{
		{asynq.NewTask("send", []byte(`{"user":"seven"}`), asynq.Queue("send"), asynq.MaxRetry(9)), "invalid parameters: json"},
		{asynq.NewTask("send", nil, asynq.Queue("send"), asynq.MaxRetry(9)), "invalid parameters: unexpected end"},
		{asynq.NewTask("send", []byte(`{}`), asynq.Queue("send"), asynq.MaxRetry(0)), "mail is down"},
		{asynq.NewTask("double", []byte(`1`), asynq.Queue("double"), asynq.MaxRetry(0)), "no"},
		{asynq.NewTask("double", []byte(`2`), asynq.Queue("double"), asynq.MaxRetry(9)), `result of "double"`},
		{asynq.NewTask("other", nil, asynq.Queue("double"), asynq.MaxRetry(0)), `"other": handler not found`},
	} {
		info := got[*asynq.TaskInfo](s)(s.broker.Client().Enqueue(test.task))
		_, err := s.client.Wait(s.ctx, info.Queue, info.ID)
		if !errors.Is(err, tasks.ErrArchived) || !strings.Contains(err.Error(), test.wants) {
			t.Errorf("%s: %v", test.wants, err)
		}
	}
}

func TestHandlerWithoutWorker(t *testing.T) {
	s := newEnv(t)
	half := tasks.DefineResult[int, int]("half", tasks.InOrder(), tasks.MaxRetry(1))
	handler := got[asynq.Handler](s)(tasks.Table{half.Handle(func(_ context.Context, n int) (int, error) {
		if n%2 == 1 {
			return 0, errors.New("odd")
		}
		return n / 2, nil
	})}.Handler())
	for n := range 3 {
		got[*asynq.TaskInfo](s)(half.Enqueue(s.ctx, s.client, n, asynq.TaskID(fmt.Sprint(n))))
	}
	outcomes := s.broker.Drain(t, handler)
	if len(outcomes) != 4 { // the odd one has two attempts
		t.Errorf("outcomes %+v", outcomes)
	}
	if n := got[int](s)(half.Wait(s.ctx, s.client, "2")); n != 1 {
		t.Errorf("half of 2 is %d", n)
	}
	if _, err := (tasks.Table{}).Handler(); !errors.Is(err, tasks.ErrDefinition) {
		t.Errorf("an empty table: %v", err)
	}
}

func TestWait(t *testing.T) {
	s := newEnv(t)
	send := tasks.Define[params]("send")
	ask := tasks.DefineResult[params, int]("ask")
	if _, err := send.Wait(s.ctx, s.client, "none"); !errors.Is(err, tasks.ErrGone) || !errors.Is(err, asynq.ErrQueueNotFound) {
		t.Errorf("no queue: %v", err)
	}
	info := got[*asynq.TaskInfo](s)(ask.Enqueue(s.ctx, s.client, params{}))
	if info.Retention != time.Hour {
		t.Errorf("results are kept for %v", info.Retention)
	}
	if _, err := ask.Wait(s.ctx, s.client, "none"); !errors.Is(err, tasks.ErrGone) || !errors.Is(err, asynq.ErrTaskNotFound) {
		t.Errorf("no task: %v", err)
	}
	ctx, cancel := context.WithTimeout(s.ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := ask.Wait(ctx, s.client, info.ID); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no worker: %v", err)
	}

	// An invalid result.
	s.broker.Drain(t, asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		_, err := task.ResultWriter().Write([]byte("{"))
		return err
	}))
	if _, err := ask.Wait(s.ctx, s.client, info.ID); err == nil || !strings.Contains(err.Error(), `result of "ask"`) {
		t.Errorf("invalid result: %v", err)
	}
}

func TestEnqueueIsIdempotent(t *testing.T) {
	s := newEnv(t)
	send := tasks.Define[params]("send", tasks.Retention(time.Hour))
	once := asynq.TaskID("once")
	first := got[*asynq.TaskInfo](s)(send.Enqueue(s.ctx, s.client, params{User: 1}, once))
	again := got[*asynq.TaskInfo](s)(send.Enqueue(s.ctx, s.client, params{User: 1}, once, asynq.MaxRetry(7)))
	if again.ID != first.ID || again.MaxRetry != first.MaxRetry {
		t.Errorf("second call: %+v", again)
	}
	if _, err := send.Enqueue(s.ctx, s.client, params{User: 2}, once); !errors.Is(err, asynq.ErrTaskIDConflict) {
		t.Errorf("other parameters: %v", err)
	}
	request := tasks.Request{ID: "once", Name: "send", Params: params{User: 1}}
	if info := got[*asynq.TaskInfo](s)(s.client.Enqueue(s.ctx, request)); info.ID != "once" {
		t.Errorf("by name: %+v", info)
	}
	s.broker.Drain(t, asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil }))
	if info := got[*asynq.TaskInfo](s)(s.client.Enqueue(s.ctx, request)); info.State != asynq.TaskStateCompleted {
		t.Errorf("after its end: %+v", info)
	}
}

// xmlCodec is a codec other than JSON.
type xmlCodec struct{}

func (xmlCodec) Marshal(v any) ([]byte, error)      { return xml.Marshal(v) }
func (xmlCodec) Unmarshal(data []byte, v any) error { return xml.Unmarshal(data, v) }

func TestEnqueueByNameWithClientOptions(t *testing.T) {
	shop := tasks.Options(tasks.QueuePrefix("shop:"), tasks.WithCodec(xmlCodec{}), tasks.MaxRetry(2))
	s := newEnv(t, shop)
	info := got[*asynq.TaskInfo](s)(s.client.Enqueue(s.ctx, tasks.Request{Name: "send", Params: params{User: 7}}))
	if info.Queue != "shop:send" || info.MaxRetry != 2 || !strings.HasPrefix(string(info.Payload), "<params>") {
		t.Errorf("enqueued %+v", info)
	}
	users := make(chan int, 1)
	s.start(tasks.Table{tasks.Define[params]("send", shop).Handle(func(_ context.Context, p params) error {
		users <- p.User
		return nil
	})})
	select {
	case user := <-users:
		if user != 7 {
			t.Errorf("user %d", user)
		}
	case <-s.ctx.Done():
		t.Fatal("task not processed")
	}
	for _, request := range []tasks.Request{{}, {Name: "x", Options: []asynq.Option{asynq.Queue("y")}}, {Name: "x", Params: func() {}}} {
		if _, err := s.client.Enqueue(s.ctx, request); err == nil {
			t.Errorf("%+v was enqueued", request)
		}
	}
}

func TestShutdown(t *testing.T) {
	s := newEnv(t)
	table := tasks.Table{tasks.Handle("t", asynq.NotFoundHandler())}
	w := s.start(table)
	w.Shutdown()
	w.Shutdown()
	w.Wait()

	ctx, cancel := context.WithCancel(s.ctx)
	ends, err := tasks.Start(ctx, s.broker.RedisConnOpt(), table)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-ends.Done():
		t.Error("worker stopped by itself")
	default:
	}
	cancel()
	ends.Wait()

	if _, err := tasks.Start(s.ctx, s.broker.RedisConnOpt(), table, tasks.Use(nil)); err == nil {
		t.Error("nil middleware accepted")
	}
	if _, err := tasks.Start(nil, s.broker.RedisConnOpt(), table); err == nil { //nolint:staticcheck // tests a nil context
		t.Error("nil context accepted")
	}
}

// Partitions of a definition limit its workers, and tasks have the key of their parameters.
func TestPartitions(t *testing.T) {
	s := newEnv(t)
	started, proceed := make(chan int, 4), make(chan struct{})
	hook := tasks.Define[params]("hook", tasks.Partitions(asynq.PartitionConfig{Ordered: true}),
		tasks.PartitionBy(func(p params) string { return p.Text }))
	for n := range 3 {
		info := got[*asynq.TaskInfo](s)(hook.Enqueue(s.ctx, s.client, params{User: n, Text: "a"}))
		if info.PartitionKey != "a" {
			t.Errorf("partition %q", info.PartitionKey)
		}
	}
	got[*asynq.TaskInfo](s)(hook.Enqueue(s.ctx, s.client, params{User: 9, Text: "b"}))
	s.start(tasks.Table{hook.Handle(func(_ context.Context, p params) error {
		started <- p.User
		<-proceed
		return nil
	})}, tasks.Concurrency(4))
	var order []int
	next := func() {
		t.Helper()
		select {
		case n := <-started:
			order = append(order, n)
		case <-s.ctx.Done():
			t.Fatalf("only %v started", order)
		}
	}
	next()
	next() // the first of a, and that of b
	for partition, err := range s.broker.Inspector().Partitions(s.ctx, "hook") {
		if err != nil || partition.Active != 1 {
			t.Errorf("partition %+v, %v: want one active task", partition, err)
		}
	}
	close(proceed)
	next()
	next()
	if order = slices.DeleteFunc(order, func(n int) bool { return n == 9 }); !slices.Equal(order, []int{0, 1, 2}) {
		t.Errorf("the tasks of a started in the order %v", order)
	}
}
