package asynq

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/wire"
)

var testKeys = wire.DefaultNamespace.Queue

func TestOptionsAsGoSource(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		opt    Option
		kind   OptionType
		value  any
		source string
	}{
		{MaxRetry(-3), MaxRetryOpt, 0, "MaxRetry(0)"},
		{Queue("low"), QueueOpt, "low", `Queue("low")`},
		{TaskID("a b"), TaskIDOpt, "a b", `TaskID("a b")`},
		{Timeout(90 * time.Second), TimeoutOpt, 90 * time.Second, "Timeout(1m30s)"},
		{Deadline(at), DeadlineOpt, at, "Deadline(Sat Nov 21 08:00:00 UTC 2026)"},
		{Unique(time.Hour), UniqueOpt, time.Hour, "Unique(1h0m0s)"},
		{ProcessAt(at), ProcessAtOpt, at, "ProcessAt(Sat Nov 21 08:00:00 UTC 2026)"},
		{ProcessIn(time.Minute), ProcessInOpt, time.Minute, "ProcessIn(1m0s)"},
		{Retention(time.Hour), RetentionOpt, time.Hour, "Retention(1h0m0s)"},
		{Group("g"), GroupOpt, "g", `Group("g")`},
		{Header("k", "v"), HeaderOpt, [2]string{"k", "v"}, `Header("k", "v")`},
	} {
		if test.opt.Type() != test.kind || !reflect.DeepEqual(test.opt.Value(), test.value) || test.opt.String() != test.source {
			t.Errorf("got %v, %v, %s; want %v, %v, %s", test.opt.Type(), test.opt.Value(), test.opt, test.kind, test.value, test.source)
		}
	}
}

func TestCreationDefaults(t *testing.T) {
	t.Parallel()
	now := time.Now()
	c, err := newCreation(NewTask("email", []byte("x")), nil, testKeys, now)
	if err != nil {
		t.Fatal(err)
	}
	m := c.msg
	if len(m.ID) != 36 || m.Queue != "default" || m.MaxRetry != 25 || m.Timeout != 1800 || m.Deadline != 0 || m.UniqueKey != "" {
		t.Errorf("defaults are %+v", m)
	}
	if c.state != TaskStatePending || c.order.ProcessAt != 0 {
		t.Errorf("a task without a time is %v at %d", c.state, c.order.ProcessAt)
	}
	decoded, err := wire.DecodeTaskMessage(c.order.Message)
	if err != nil || decoded.ID != m.ID || string(decoded.Payload) != "x" {
		t.Errorf("the message in the order is %+v, error %v", decoded, err)
	}
}

func TestOptionsOfTheCallOverrideTheTasks(t *testing.T) {
	t.Parallel()
	opts := make([]Option, 0, 8) // with room to be written to
	opts = append(opts, Queue("low"), MaxRetry(1), Header("a", "task"), Header("b", "task"))
	task := NewTaskWithHeaders("email", nil, map[string]string{"a": "headers", "c": "headers"}, opts...)
	call := make([]Option, 0, 8)
	call = append(call, Queue("high"), Header("a", "call"))
	c, err := newCreation(task, call, testKeys, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"a": "call", "b": "task", "c": "headers"}
	if c.msg.Queue != "high" || c.msg.MaxRetry != 1 || !reflect.DeepEqual(c.msg.Headers, want) {
		t.Errorf("got queue %q, retries %d, headers %v", c.msg.Queue, c.msg.MaxRetry, c.msg.Headers)
	}
	if opts[:8][4] != nil || call[:8][2] != nil {
		t.Error("a slice of the caller was written to")
	}
	if got := task.Headers(); got["a"] != "headers" {
		t.Errorf("the task's own headers changed: %v", got)
	}
}

func TestShortDurationsRoundUp(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 1)
	c, err := newCreation(NewTask("x", nil), []Option{
		Timeout(time.Millisecond), Retention(time.Millisecond), Unique(time.Millisecond), ProcessIn(time.Millisecond),
		Deadline(time.Unix(5000, 1)),
	}, testKeys, now)
	if err != nil {
		t.Fatal(err)
	}
	if c.msg.Timeout != 1 || c.msg.Retention != 1 || c.msg.Deadline != 5001 || c.order.ProcessAt != 1001 || c.order.LockTTL != 2 {
		t.Errorf("got %+v and %+v", c.msg, c.order)
	}
}

func TestHugeDurations(t *testing.T) {
	t.Parallel()
	const forever = time.Duration(math.MaxInt64)
	c, err := newCreation(NewTask("x", nil), []Option{Unique(forever), ProcessIn(forever), Timeout(forever), MaxRetry(math.MaxInt64)}, testKeys, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if c.order.LockTTL <= 0 || c.order.ProcessAt <= 0 || c.msg.Timeout <= 0 || c.msg.MaxRetry != math.MaxInt32 {
		t.Errorf("got %+v and %+v", c.msg, c.order)
	}
}

func TestRefusedInput(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		task *Task
		opts []Option
		says string
	}{
		{"nil task", nil, nil, "task must not be nil"},
		{"no type", NewTask(" \n", nil), nil, "type must not be empty"},
		{"type not UTF-8", NewTask("\xff", nil), nil, "UTF-8"},
		{"header not UTF-8", NewTask("x", nil), []Option{Header("k", "\xff")}, "UTF-8"},
		{"no queue", NewTask("x", nil), []Option{Queue("  ")}, "queue name must not be empty"},
		{"queue that breaks the hash tag", NewTask("x", nil), []Option{Queue("}x")}, "closing brace"},
		{"empty ID", NewTask("x", nil), []Option{TaskID("")}, "task ID must not be empty"},
		{"empty group", NewTask("x", nil), []Option{Group("")}, "group name must not be empty"},
		{"unique for no time", NewTask("x", nil), []Option{Unique(0)}, "must be positive"},
		{"negative timeout", NewTask("x", nil), []Option{Timeout(-1)}, "must not be negative"},
		{"negative retention", NewTask("x", nil), []Option{Retention(-1)}, "must not be negative"},
		{"nil option", NewTask("x", nil), []Option{nil}, "not made by this package"},
	} {
		_, err := newCreation(test.task, test.opts, testKeys, time.Now())
		if err == nil || !strings.HasPrefix(err.Error(), "asynq: ") || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: the error is %v, want one that says %q", test.name, err, test.says)
		}
	}
}

func TestDefaultRetryDelay(t *testing.T) {
	t.Parallel()
	for _, n := range []int{-1, 0, 1, 5, 25, 300, 310, 1000, math.MaxInt} {
		at := min(max(n, 0), 300) // more would not fit a time.Duration
		low := time.Duration(at*at*at*at+15) * time.Second
		high := low + time.Duration(29*(at+1))*time.Second
		for range 100 {
			if d := DefaultRetryDelayFunc(n, nil, nil); d < low || d > high {
				t.Fatalf("the delay after %d failures is %v, want %v to %v", n, d, low, high)
			}
		}
	}
}
