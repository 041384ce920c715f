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

func TestDefinitionsThatCannotBe(t *testing.T) {
	t.Parallel()
	client := NewClient(asynq.RedisClientOpt{Addr: "127.0.0.1:1"}) // is never asked
	defer client.Close()
	for want, d := range map[string]*Definition[int]{
		"name is blank":           Define[int](" "),
		"name is not UTF-8":       Define[int]("\xff"),
		"closing brace":           Define[int]("}"),
		"queue is blank":          Define[int]("t", Queue("")),
		"contradict":              Define[int]("t", InOrder(), MaxRun(2)),
		"Codec is nil":            Define[int]("t", WithCodec(nil)),
		"option is nil":           Define[int]("t", nil, With(nil)),
		"set by tasks.Queue":      Define[int]("t", With(asynq.Queue("q"))),
		"Weight(0)":               Define[int]("t", Weight(0)),
		"MaxRun(3) contradict":    Define[int]("t", Options(MaxRun(3), Options(InOrder()))),
		"queue is not UTF-8":      Define[int]("t", QueuePrefix("\xff")),
		"begins with a closing":   Define[int]("t", QueuePrefix("}")),
		`invalid definition of "`: Define[int]("t", Weight(-1)),
	} {
		_, enqueueErr := d.Enqueue(context.Background(), client, 1)
		_, waitErr := d.Wait(context.Background(), client, "id")
		_, startErr := Start(context.Background(), nil, Table{d.Handle(func(context.Context, int) error { return nil })})
		for _, err := range []error{enqueueErr, waitErr, startErr} {
			if !errors.Is(err, ErrDefinition) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want that its %s", err, want)
			}
		}
	}
}

func TestTablesThatCannotBe(t *testing.T) {
	t.Parallel()
	a := Define[int]("a").Handle(func(context.Context, int) error { return nil })
	row := func(name string, opts ...Option) Row { return Handle(name, asynq.NotFoundHandler(), opts...) }
	for want, table := range map[string]Table{
		"empty":                   nil,
		"row 1 of the table":      {a, Row{}},
		`"a" is in the table`:     {a, row("b"), row("a", Queue("other"))},
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
			t.Errorf("%v, want %s", err, want)
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
	for queue, want := range map[string][2]int{"any": {1, 0}, "one": {3, 1}, "ordered": {1, asynq.InOrder}, "shop:two": {1, 2}} {
		if got := [2]int{cfg.Queues[queue], cfg.QueueConcurrency[queue]}; got != want {
			t.Errorf("%s has weight and concurrency %v, want %v", queue, got, want)
		}
	}
	if len(cfg.Queues) != 4 {
		t.Errorf("the queues are %v", cfg.Queues)
	}
	if d := cfg.RetryDelayFunc(7, nil, asynq.NewTask("ordered", nil)); d != 7 {
		t.Errorf("ordered is tried again after %v", d)
	}
	if d := cfg.RetryDelayFunc(7, nil, asynq.NewTask("any", nil)); d != time.Hour {
		t.Errorf("any is tried again after %v", d)
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
	if _, err := d.NewTask(nil, asynq.Queue("q")); err == nil || !strings.Contains(err.Error(), `leave Queue("q") out`) {
		t.Errorf("with another queue: %v", err)
	}
	if _, err := Define[any]("x").NewTask(func() {}); err == nil || !strings.Contains(err.Error(), `parameters of "x"`) {
		t.Errorf("with what is no JSON: %v", err)
	}
}
