package web_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web"
)

// guarded returns a Handler whose Authorize refuses all actions on the queue "secret", which has
// the pending task "x" and the active task "active". The queue "open" has a task "y". The channel
// receives the IDs of tasks to cancel.
func guarded(t *testing.T) (*web.Handler, <-chan *redis.Message) {
	t.Helper()
	opt := asynq.RedisClientOpt{Addr: miniredis.RunT(t).Addr()}
	client, receiver := asynq.NewClient(opt), asynq.NewReceiver(opt, asynq.ReceiverConfig{Queues: map[string]int{"secret": 1}})
	if err := receiver.Start(); err != nil {
		t.Fatal(err)
	}
	for _, task := range []struct{ queue, id string }{{"secret", "active"}, {"open", "y"}} {
		if _, err := client.Enqueue(asynq.NewTask("t", []byte("hidden")), asynq.Queue(task.queue), asynq.TaskID(task.id)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if leases, err := receiver.Receive(ctx, 1, "secret"); err != nil || len(leases) != 1 {
		t.Fatal(leases, err)
	}
	if _, err := client.Enqueue(asynq.NewTask("t", []byte("hidden")), asynq.Queue("secret"), asynq.TaskID("x"), asynq.ProcessIn(time.Hour)); err != nil {
		t.Fatal(err)
	}
	raw := redis.NewClient(&redis.Options{Addr: opt.Addr})
	stops := raw.Subscribe(ctx, "asynq:cancel")
	if _, err := stops.Receive(ctx); err != nil {
		t.Fatal(err)
	}
	h := web.New(web.Options{
		RedisConnOpt: opt, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Authorize: func(_ *http.Request, a web.Action) error {
			if a.Queue == "secret" {
				return errors.New("that queue is not for you")
			}
			return nil
		},
	})
	t.Cleanup(func() {
		_, _, _, _ = h.Close(), stops.Close(), raw.Close(), client.Close()
		receiver.Shutdown()
	})
	return h, stops.Channel()
}

func send(h http.Handler, method, target, kind, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// All routes with a queue call Authorize with that queue.
func TestAuthorizeIsCalledForTheQueue(t *testing.T) {
	t.Parallel()
	h, stops := guarded(t)
	const form, json = "application/x-www-form-urlencoded", "application/json"
	for _, c := range []struct{ method, target, kind, body string }{
		{"GET", "/queue?queue=secret", "", ""},
		{"GET", "/tasks?queue=secret&state=scheduled", "", ""},
		{"GET", "/task?queue=secret&id=x", "", ""},
		{"HEAD", "/task?queue=secret&id=x", "", ""},
		{"GET", "/edit?queue=secret&id=x", "", ""},
		{"GET", "/enqueue?queue=secret&from=x", "", ""},
		{"GET", "/search?queue=secret", "", ""},
		{"GET", "/groups?queue=secret", "", ""},
		{"GET", "/errors?queue=secret", "", ""},
		{"GET", "/series?queue=secret&metrics=pending", "", ""},
		{"GET", "/download?queue=secret&id=x", "", ""},
		{"POST", "/queue", form, "queue=secret&do=pause"},
		{"POST", "/task", form, "queue=secret&id=x&do=run"},
		{"POST", "/tasks", form, "queue=secret&id=x&do=run"},
		{"POST", "/tasks", form, "mixed=1&id=queue%3Dopen%26id%3Dy&id=queue%3Dsecret%26id%3Dx&do=archive"},
		{"POST", "/edit", form, "queue=secret&id=x&payload=a"},
		{"POST", "/enqueue", form, "queue=secret&type=a"},
		{"POST", "/servers", form, "queue=secret&id=active&do=cancel"},
		{"GET", "/api/queues/secret", "", ""},
		{"GET", "/api/queues/%73ecret", "", ""},
		{"GET", "/api/queues/secret/groups", "", ""},
		{"GET", "/api/queues/secret/tasks/x", "", ""},
		{"GET", "/api/queues/secret/scheduled_tasks", "", ""},
		{"DELETE", "/api/queues/secret", "", ""},
		{"POST", "/api/queues/secret:pause", "", ""},
		{"POST", "/api/queues/secret/scheduled_tasks/x:run", "", ""},
		{"POST", "/api/queues/secret/scheduled_tasks:run_all", "", ""},
		{"POST", "/api/queues/secret/scheduled_tasks:batch_run", "", `{"task_ids":["x"]}`},
		{"GET", "/api/v2/queues/secret", "", ""},
		{"GET", "/api/v2/queues/secret/history", "", ""},
		{"GET", "/api/v2/queues/secret/series", "", ""},
		{"GET", "/api/v2/queues/secret/groups", "", ""},
		{"GET", "/api/v2/queues/secret/tasks", "", ""},
		{"GET", "/api/v2/queues/secret/tasks/x", "", ""},
		{"GET", "/api/v2/tasks?queue=secret", "", ""},
		{"GET", "/api/v2/tasks?queue=open&queue=secret", "", ""},
		{"GET", "/api/v2/errors?queue=open&queue=secret", "", ""},
		{"GET", "/api/v2/types?queue=open&queue=secret", "", ""},
		{"GET", "/api/v2/workers?queue=secret", "", ""},
		{"PATCH", "/api/v2/queues/secret", json, `{"paused":true}`},
		{"DELETE", "/api/v2/queues/secret", "", ""},
		{"POST", "/api/v2/tasks", json, `{"type":"a","queue":"secret"}`},
		{"POST", "/api/v2/tasks:batch", json, `{"tasks":[{"type":"a","queue":"open"},{"type":"a","queue":"secret"}]}`},
		{"PATCH", "/api/v2/queues/secret/tasks/x", json, `{"next_process_at":"2030-01-01T00:00:00Z"}`},
		{"DELETE", "/api/v2/queues/secret/tasks/x", "", ""},
		{"POST", "/api/v2/queues/secret/tasks/x/run", "", ""},
		{"POST", "/api/v2/queues/secret/tasks/x/archive", "", ""},
		{"POST", "/api/v2/queues/secret/tasks/active/cancel", "", ""},
		{"POST", "/api/v2/queues/secret/tasks/x/clone", json, `{"queue":"open"}`},
		{"POST", "/api/v2/queues/open/tasks/y/clone", json, `{"queue":"secret"}`},
		{"POST", "/api/v2/operations", json, `{"kind":"run","queue":"secret","state":"scheduled"}`},
		{"POST", "/api/v2/operations", json, `{"kind":"run","queue":"secret","state":"scheduled","dry_run":true}`},
	} {
		if w := send(h, c.method, c.target, c.kind, c.body); w.Code != http.StatusForbidden || strings.Contains(w.Body.String(), "hidden") {
			t.Errorf("%s %s %s: %d %.200s", c.method, c.target, c.body, w.Code, w.Body)
		}
	}
	for _, target := range []string{"/task?queue=open&id=y", "/tasks?queue=open", "/api/v2/tasks?queue=open", "/api/queues/open"} {
		if w := send(h, "GET", target, "", ""); w.Code != http.StatusOK {
			t.Errorf("%s: %d", target, w.Code)
		}
	}
	// Servers receive only IDs: the ID of a task in another queue must not suffice.
	for _, c := range []struct{ target, kind, body string }{
		{"/servers", form, "queue=open&id=active&do=cancel"},
		{"/servers", form, "queue=open&id=y&do=cancel"},
		{"/task", form, "queue=open&id=active&do=cancel"},
		{"/tasks", form, "queue=open&id=active&do=cancel&confirm=yes"},
		{"/api/queues/open/active_tasks/active:cancel", "", ""},
		{"/api/queues/open/active_tasks:batch_cancel", "", `{"task_ids":["active"]}`},
		{"/api/v2/queues/open/tasks/active/cancel", "", ""},
		{"/api/v2/operations", json, `{"kind":"cancel","queue":"open","ids":["active"]}`},
	} {
		send(h, "POST", c.target, c.kind, c.body)
	}
	// Operations run in the background: Close waits for them.
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case m := <-stops:
		t.Errorf("the task %q was told to stop", m.Payload)
	case <-time.After(200 * time.Millisecond):
	}
}

// A task without a queue goes to the queue "default", which is passed to Authorize.
func TestAuthorizeIsCalledForTheDefaultQueue(t *testing.T) {
	t.Parallel()
	var asked []string
	opt := asynq.RedisClientOpt{Addr: miniredis.RunT(t).Addr()}
	h := web.New(web.Options{RedisConnOpt: opt, Logger: slog.New(slog.DiscardHandler), Authorize: func(_ *http.Request, a web.Action) error {
		if a.Verb == web.TaskEnqueue {
			asked = append(asked, a.Queue)
			return errors.New("no")
		}
		return nil
	}})
	t.Cleanup(func() { _ = h.Close() })
	send(h, "POST", "/enqueue", "application/x-www-form-urlencoded", "type=a")
	send(h, "POST", "/api/v2/tasks", "application/json", `{"type":"a"}`)
	send(h, "POST", "/api/v2/tasks:batch", "application/json", `{"tasks":[{"type":"a"}]}`)
	if strings.Join(asked, " ") != "default default default" {
		t.Errorf("asked about %q", asked)
	}
}
