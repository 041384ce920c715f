package tasks

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

func TestInvalidDefinitions(t *testing.T) {
	t.Parallel()
	client := NewClient(asynq.RedisClientOpt{Addr: "127.0.0.1:1"}) // never contacted
	defer client.Close()
	for want, d := range map[string]*Definition[int]{
		"name must not be blank":  Define[int](" "),
		"name must be UTF-8":      Define[int]("\xff"),
		"not begin with }":        Define[int]("}"),
		"queue must not be blank": Define[int]("t", Queue("")),
		"contradict":              Define[int]("t", InOrder(), MaxRun(2)),
		"exclude each other":      Define[int]("t", InOrder(), Partitions(asynq.PartitionConfig{})),
		"at most 1,000, not 1001": Define[int]("t", Partitions(asynq.PartitionConfig{Concurrency: 1001})),
		"PartitionBy takes string, but the parameters are int": Define[int]("t", PartitionBy(func(string) string { return "" })),
		"PartitionBy is nil":      Define[int]("t", PartitionBy[int](nil)),
		"Codec is nil":            Define[int]("t", WithCodec(nil)),
		"option is nil":           Define[int]("t", nil, With(nil)),
		"use tasks.Queue":         Define[int]("t", With(asynq.Queue("q"))),
		"Weight(0)":               Define[int]("t", Weight(0)),
		"MaxRun(3) contradict":    Define[int]("t", Options(MaxRun(3), Options(InOrder()))),
		"queue must be UTF-8":     Define[int]("t", QueuePrefix("\xff")),
		"queue must not begin":    Define[int]("t", QueuePrefix("}")),
		`invalid definition of "`: Define[int]("t", Weight(-1)),
	} {
		_, enqueueErr := d.Enqueue(context.Background(), client, 1)
		_, waitErr := d.Wait(context.Background(), client, "id")
		_, startErr := Start(context.Background(), nil, Table{d.Handle(func(context.Context, int) error { return nil })})
		for _, err := range []error{enqueueErr, waitErr, startErr} {
			if !errors.Is(err, ErrDefinition) || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		}
	}
}

func TestInvalidTables(t *testing.T) {
	t.Parallel()
	a := Define[int]("a").Handle(func(context.Context, int) error { return nil })
	row := func(name string, opts ...Option) Row { return Handle(name, asynq.NotFoundHandler(), opts...) }
	for want, table := range map[string]Table{
		"empty":                   nil,
		"row 1 of the table":      {a, Row{}},
		`duplicate task "a"`:      {a, row("b"), row("a", Queue("other"))},
		`"c" has no handler`:      {a, Handle("c", nil)},
		`"d" has no handler`:      {DefineResult[int, int]("d").Handle(nil)},
		`"e" has no handler`:      {Define[int]("e").Handle(nil)},
		`"x" and "y" share`:       {row("x", MaxRun(1)), row("y", Queue("x"))},
		`share queue "x"`:         {row("x", MaxRun(1)), row("y", Queue("x"), InOrder())},
		`"p" and "q" share`:       {row("p", Partitions(asynq.PartitionConfig{})), row("q", Queue("p"))},
		`"r" and "s" share`:       {row("r", Partitions(asynq.PartitionConfig{})), row("s", Queue("r"), Partitions(asynq.PartitionConfig{ByType: true}))},
		`"v" and "w" share`:       {row("v"), row("w", Queue("v"), Weight(2))},
		`invalid definition of "`: {a, row("")},
	} {
		_, err := Start(context.Background(), nil, table)
		if !errors.Is(err, ErrDefinition) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestPlan(t *testing.T) {
	t.Parallel()
	row := func(name string, opts ...Option) Row { return Handle(name, asynq.NotFoundHandler(), opts...) }
	shop := Options(QueuePrefix("shop:"), MaxRun(2))
	cfg := asynq.Config{RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Hour }}
	_, err := Table{
		row("any"),
		row("one", MaxRun(1), Weight(3)),
		row("ordered", InOrder(), MaxRun(1), RetryDelay(func(n int, _ error) time.Duration { return time.Duration(n) })),
		row("two", shop),
		row("alike", shop, Queue("two")),
		row("hooks", Partitions(asynq.PartitionConfig{Concurrency: 3}), MaxRun(9)),
		row("calls", Partitions(asynq.PartitionConfig{Concurrency: 3}), MaxRun(9), Queue("hooks")),
	}.plan(&cfg)
	if err != nil {
		t.Fatal(err)
	}
	for queue, want := range map[string]struct {
		weight int
		limits asynq.QueueConfig
	}{
		"any":      {1, asynq.QueueConfig{}},
		"one":      {3, asynq.QueueConfig{Concurrency: 1}},
		"ordered":  {1, asynq.QueueConfig{Ordered: true}},
		"shop:two": {1, asynq.QueueConfig{Concurrency: 2}},
	} {
		if cfg.Queues[queue] != want.weight || cfg.QueueConfigs[queue] != want.limits {
			t.Errorf("%s has weight %d and limits %+v, want %+v", queue, cfg.Queues[queue], cfg.QueueConfigs[queue], want)
		}
	}
	hooks := cfg.QueueConfigs["hooks"]
	if hooks.Concurrency != 9 || hooks.Partitions == nil || *hooks.Partitions != (asynq.PartitionConfig{Concurrency: 3}) {
		t.Errorf("limits of hooks: %+v", hooks)
	}
	if len(cfg.Queues) != 5 {
		t.Errorf("queues %v", cfg.Queues)
	}
	if d := cfg.RetryDelayFunc(7, nil, asynq.NewTask("ordered", nil)); d != 7 {
		t.Errorf("retry delay of ordered: %v", d)
	}
	if d := cfg.RetryDelayFunc(7, nil, asynq.NewTask("any", nil)); d != time.Hour {
		t.Errorf("retry delay of any: %v", d)
	}
}

func TestNewTask(t *testing.T) {
	t.Parallel()
	d := Define[map[string]int]("send", MaxRetry(3), QueuePrefix("p:"), Options(Timeout(time.Minute), Unique(time.Hour)))
	task, err := d.NewTask(map[string]int{"a": 1}, asynq.MaxRetry(4))
	if err != nil {
		t.Fatal(err)
	}
	var opts []string
	for _, opt := range task.Options() {
		opts = append(opts, opt.String())
	}
	want := []string{"MaxRetry(3)", "Timeout(1m0s)", "Unique(1h0m0s)", "MaxRetry(4)", `Queue("p:send")`}
	if task.Type() != "send" || string(task.Payload()) != `{"a":1}` || !slices.Equal(opts, want) || d.Queue() != "p:send" || d.Name() != "send" {
		t.Errorf("got %q, %q, %q", task.Type(), task.Payload(), opts)
	}
	if _, err := d.NewTask(nil, asynq.Queue("q")); err == nil || !strings.Contains(err.Error(), `remove Queue("q")`) {
		t.Errorf("another queue: %v", err)
	}
	if _, err := Define[any]("x").NewTask(func() {}); err == nil || !strings.Contains(err.Error(), `parameters of "x"`) {
		t.Errorf("invalid JSON: %v", err)
	}
}

func TestPartitionBy(t *testing.T) {
	t.Parallel()
	key := func(d *Definition[string], params string, opts ...asynq.Option) (keys []string, err error) {
		task, err := d.NewTask(params, opts...)
		if err != nil {
			return nil, err
		}
		for _, opt := range task.Options() {
			if opt.Type() == asynq.PartitionKeyOpt {
				keys = append(keys, opt.Value().(string))
			}
		}
		return keys, task.Validate()
	}
	d := Define[string]("t", PartitionBy(func(p string) string { return strings.TrimPrefix(p, "none") }))
	for params, want := range map[string][]string{"a": {"a"}, "none": nil} {
		if got, err := key(d, params); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q has the keys %q, %v; want %q", params, got, err, want)
		}
	}
	if got, err := key(d, "a", asynq.PartitionKey("b")); err != nil || got[len(got)-1] != "b" {
		t.Errorf("the option of the task does not come last: %q, %v", got, err)
	}
	if _, err := key(d, " "); err == nil || !strings.Contains(err.Error(), "partition key must not be blank") {
		t.Errorf("blank key: %v", err)
	}
	s, err := newSettings("t", nil, []Option{PartitionBy(func(int) string { return "" })}) // as Client.Enqueue does
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.newTask("text", nil); err == nil || !strings.Contains(err.Error(), "are string, but PartitionBy takes int") {
		t.Errorf("parameters of another type: %v", err)
	}
	null := Define[any]("t", PartitionBy(func(p any) string {
		if p == nil {
			return "nil"
		}
		return "other"
	}))
	if task, err := null.NewTask(nil); err != nil || !slices.ContainsFunc(task.Options(), func(o asynq.Option) bool { return o.Value() == "nil" }) {
		t.Errorf("nil parameters: %v", err)
	}
}
