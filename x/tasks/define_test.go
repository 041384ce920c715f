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
	if len(cfg.Queues) != 4 {
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
