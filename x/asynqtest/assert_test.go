package asynqtest_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/asynqtest"
)

func TestMatching(t *testing.T) {
	t.Parallel()
	b := asynqtest.Run(t)
	deadline := b.Now().Add(24 * time.Hour)
	client := b.Client()
	task := asynq.NewTaskWithHeaders("email:welcome", []byte(`{"to": "ada", "n": 1, "tags": ["a", "b"], "big": 9007199254740993}`), map[string]string{"trace": "1"})
	_, err := client.Enqueue(task, asynq.TaskID("x"), asynq.Queue("mail"), asynq.MaxRetry(0), asynq.Timeout(1500*time.Millisecond),
		asynq.Deadline(deadline), asynq.Retention(time.Hour), asynq.ProcessIn(time.Hour), asynq.Group("g"), asynq.Header("user", "7"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		want     asynqtest.Task
		mismatch string // part of the failure; "" if it matches
	}{
		{asynqtest.Task{}, ""},
		{asynqtest.Task{Type: "email:welcome"}, ""},
		{asynqtest.Task{Type: "email"}, `Type:      want "email", got "email:welcome"`},
		{asynqtest.Task{Payload: `{"big":9007199254740993,"n":1.0,"tags":["a","b"],"to":"ada"}`}, ""},
		{asynqtest.Task{Payload: []byte(`{"big":9007199254740993,"n":1,"tags":["a","b"],"to":"ada"}`)}, ""},
		{asynqtest.Task{Payload: json.RawMessage(`{"big":9.007199254740993e15,"n":10e-1,"tags":["a","b"],"to":"ada"}`)}, ""},
		{asynqtest.Task{Payload: map[string]any{"to": "ada", "n": 1, "tags": []string{"a", "b"}, "big": 9007199254740993}}, ""},
		{asynqtest.Task{Payload: `{"big":9007199254740992,"n":1,"tags":["a","b"],"to":"ada"}`}, "-want +got"},
		{asynqtest.Task{Payload: `{"big":9007199254740993,"n":1,"tags":["b","a"],"to":"ada"}`}, "-want +got"},
		{asynqtest.Task{Payload: `{"to":"ada"} {}`}, `Payload:   want {"to":"ada"} {}, got {"to": "ada"`},
		{asynqtest.Task{Payload: []byte{0xff}}, "Payload:   want ff, got {"},
		{asynqtest.Task{Headers: map[string]string{"trace": "1", "user": "7"}}, ""},
		{asynqtest.Task{Headers: map[string]string{"trace": "2"}}, `Headers:   want "trace": "2", got "1"`},
		{asynqtest.Task{Headers: map[string]string{"nope": ""}}, `there is no "nope"`},
		{asynqtest.Task{Queue: "mail", ID: "x", State: asynq.TaskStateScheduled, Group: "g"}, ""},
		{asynqtest.Task{Queue: "default"}, `Queue:     want "default", got "mail"`},
		{asynqtest.Task{ID: "y"}, `ID:        want "y", got "x"`},
		{asynqtest.Task{State: asynq.TaskStatePending}, "State:     want pending, got scheduled"},
		{asynqtest.Task{Group: "h"}, `Group:     want "h", got "g"`},
		{asynqtest.Task{ProcessIn: time.Hour, Within: time.Nanosecond}, ""},
		{asynqtest.Task{ProcessIn: time.Hour - 4*time.Second}, ""},
		{asynqtest.Task{ProcessIn: time.Hour - 6*time.Second}, "6s off"},
		{asynqtest.Task{ProcessIn: time.Minute, Within: time.Hour}, ""},
		{asynqtest.Task{ProcessAt: b.Now().Add(time.Hour), Within: time.Nanosecond}, ""},
		{asynqtest.Task{ProcessAt: b.Now()}, "1h0m0s off"},
		{asynqtest.Task{Options: []asynq.Option{
			nil, asynq.TaskID("x"), asynq.Queue("mail"), asynq.MaxRetry(0), asynq.Timeout(2 * time.Second), asynq.Deadline(deadline),
			asynq.Retention(time.Hour), asynq.ProcessIn(time.Hour), asynq.ProcessAt(b.Now().Add(time.Hour)), asynq.Group("g"),
			asynq.Header("user", "7"),
		}}, ""},
		{asynqtest.Task{Options: []asynq.Option{asynq.MaxRetry(1)}}, "MaxRetry:  want 1, got 0"},
		{asynqtest.Task{Options: []asynq.Option{asynq.Queue("low")}}, `Queue:     want "low", got "mail"`},
		{asynqtest.Task{Options: []asynq.Option{asynq.TaskID("y")}}, `TaskID:    want "y", got "x"`},
		{asynqtest.Task{Options: []asynq.Option{asynq.Group("h")}}, `Group:     want "h", got "g"`},
		{asynqtest.Task{Options: []asynq.Option{asynq.Timeout(time.Minute)}}, "Timeout:   want 1m0s, got 2s"},
		{asynqtest.Task{Options: []asynq.Option{asynq.Retention(time.Minute)}}, "Retention: want 1m0s, got 1h0m0s"},
		{asynqtest.Task{Options: []asynq.Option{asynq.Deadline(b.Now())}}, "24h0m0s off"},
		{asynqtest.Task{Options: []asynq.Option{asynq.ProcessIn(time.Minute)}}, "59m0s off"},
		{asynqtest.Task{Options: []asynq.Option{asynq.ProcessAt(b.Now())}}, "1h0m0s off"},
		{asynqtest.Task{Options: []asynq.Option{asynq.Header("user", "8")}}, `want "user": "8", got "7"`},
	} {
		if tc.mismatch == "" {
			b.AssertEnqueued(t, tc.want)
			wantFailure(t, func(t testing.TB) { b.AssertNotEnqueued(t, tc.want) }, "want no Task{", "email:welcome x in queue")
			b.AssertCount(t, 1, tc.want)
			wantFailure(t, func(t testing.TB) { b.AssertCount(t, 0, tc.want) }, "want 0 tasks, got 1")
			continue
		}
		wantFailure(t, func(t testing.TB) { b.AssertEnqueued(t, tc.want) }, "no such task", tc.mismatch)
		wantFailure(t, func(t testing.TB) { b.AssertCount(t, 1, tc.want) }, "want 1 tasks, got 0", tc.mismatch)
		b.AssertNotEnqueued(t, tc.want)
		if got := b.Matching(tc.want); len(got) != 0 {
			t.Errorf("%v matches %v", tc.want, got)
		}
	}
}

func TestFailureShowsTheNearest(t *testing.T) {
	t.Parallel()
	b := asynqtest.Run(t)
	want := asynqtest.Task{Type: "a", Queue: "high", Payload: `{"id":1}`}
	wantFailure(t, func(t testing.TB) { b.AssertEnqueued(t, want) }, "There are no tasks", `Task{Type: "a", Payload: {"id":1}, Queue: "high"}`)

	for range 5 {
		enqueue(t, b, "far", `{"id":1}`, asynq.Queue("high"))
	}
	enqueue(t, b, "a", `{"id":2}`, asynq.TaskID("two off"), asynq.ProcessIn(time.Hour))
	enqueue(t, b, "a", `{"id":1}`, asynq.TaskID("one off"))
	text, _ := failure(t, func(t testing.TB) { b.AssertEnqueued(t, want) })
	one, two, far := strings.Index(text, "one off"), strings.Index(text, "two off"), strings.Index(text, "far")
	if one < 0 || two < one || far < two {
		t.Errorf("the order is wrong:\n%s", text)
	}
	if !strings.Contains(text, "The most similar of the 7 others") || strings.Count(text, "far ") != 1 || !strings.Contains(text, "scheduled, due in 1h0m0s") {
		t.Errorf("got:\n%s", text)
	}
}

func TestUniqueCannotBeAskedFor(t *testing.T) {
	t.Parallel()
	b := asynqtest.Run(t)
	wantFailure(t, func(t testing.TB) {
		b.AssertEnqueued(t, asynqtest.Task{Options: []asynq.Option{asynq.Unique(time.Hour)}})
	}, "ErrDuplicateTask")
	wantFailure(t, func(t testing.TB) {
		b.AssertEnqueued(t, asynqtest.Task{Options: []asynq.Option{asynq.IdempotencyKey("key", time.Hour)}})
	}, "the same ID")
}

func TestModesInTheKit(t *testing.T) {
	t.Parallel()
	b := asynqtest.Run(t)
	for _, opt := range []asynq.Option{asynq.UniqueKey("k", time.Hour), asynq.OnDuplicate(asynq.Keep), asynq.Debounce("k", 1, 0), asynq.Throttle("k", 1)} {
		wantFailure(t, func(t testing.TB) { b.AssertEnqueued(t, asynqtest.Task{Options: []asynq.Option{opt}}) }, "leaves no trace in a task")
	}
	handled := 0
	mux := asynq.NewServeMux()
	mux.HandleFunc("doc", func(context.Context, *asynq.Task) error { handled++; return nil })
	for _, payload := range []string{"1", "2", "3"} {
		task := asynq.NewTask("doc", []byte(payload))
		if _, err := b.Client().Enqueue(task, asynq.Debounce("doc", 10*time.Second, 25*time.Second), asynq.ExpiresIn(time.Hour)); err != nil {
			t.Fatal(err)
		}
		b.AssertEnqueued(t, asynqtest.Task{Type: "doc", ProcessIn: 10 * time.Second, Options: []asynq.Option{asynq.ExpiresIn(time.Hour)}})
		b.Advance(5 * time.Second)
	}
	b.AssertCount(t, 1, asynqtest.Task{Type: "doc", Payload: 3})
	wantFailure(t, func(t testing.TB) {
		b.AssertEnqueued(t, asynqtest.Task{Options: []asynq.Option{asynq.ExpiresIn(time.Minute)}})
	}, "ExpiresIn")
	b.Advance(2 * time.Hour)
	b.Drain(t, mux)
	if handled != 0 {
		t.Errorf("an expired task was handled %d times", handled)
	}
	b.AssertCount(t, 0, asynqtest.Task{Type: "doc"})
}

func TestPendingTasksWaitForNoTime(t *testing.T) {
	t.Parallel()
	b := asynqtest.Run(t)
	enqueue(t, b, "a", "")
	wantFailure(t, func(t testing.TB) { b.AssertEnqueued(t, asynqtest.Task{ProcessAt: b.Now()}) }, "it is pending")
}

func TestEnqueuedListsAllStatesAndPages(t *testing.T) {
	t.Parallel()
	b := asynqtest.Run(t)
	enqueue(t, b, "a", "", asynq.TaskID("completed"), asynq.Retention(time.Hour))
	enqueue(t, b, "a", "", asynq.TaskID("archived"), asynq.MaxRetry(0))
	enqueue(t, b, "a", "", asynq.TaskID("retry"))
	b.Drain(t, failing("archived", "retry"), asynqtest.LeaveRetries())
	enqueue(t, b, "a", "", asynq.TaskID("scheduled"), asynq.ProcessIn(time.Hour))
	enqueue(t, b, "a", "", asynq.TaskID("grouped"), asynq.Group("g"))
	const many = 1001
	for range many {
		enqueue(t, b, "a", "", asynq.Queue("many"))
	}
	b.AssertCount(t, many, asynqtest.Task{Queue: "many", State: asynq.TaskStatePending})
	b.AssertCount(t, 5, asynqtest.Task{Queue: "default"})
	for id, state := range map[string]asynq.TaskState{
		"completed": asynq.TaskStateCompleted, "archived": asynq.TaskStateArchived, "retry": asynq.TaskStateRetry,
		"scheduled": asynq.TaskStateScheduled, "grouped": asynq.TaskStateAggregating,
	} {
		b.AssertEnqueued(t, asynqtest.Task{ID: id, State: state})
	}
}
