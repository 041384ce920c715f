package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/asynq-go/asynq"
)

// stubQueue answers each enqueue with err, or with the ID "id-1", and keeps the options it was
// given.
type stubQueue struct {
	err  error
	opts []asynq.Option
}

func (q *stubQueue) EnqueueContext(_ context.Context, _ *asynq.Task, opts ...asynq.Option) (*asynq.TaskInfo, error) {
	q.opts = opts
	if q.err != nil {
		return nil, q.err
	}
	return &asynq.TaskInfo{ID: "id-1"}, nil
}

const goodBody = `{"to": "ada@example.com", "subject": "Welcome"}`

func TestPostEmailAnswers(t *testing.T) {
	for _, tc := range []struct {
		name, body string
		err        error
		status     int
		reply      string
	}{
		{"accepted", goodBody, nil, http.StatusAccepted, `{"id":"id-1"}`},
		{"duplicate", goodBody, asynq.ErrDuplicateTask, http.StatusConflict, `{"error":"this email is enqueued already"}`},
		{"ID taken", goodBody, asynq.ErrTaskIDConflict, http.StatusConflict, `{"error":"this email is enqueued already"}`},
		{"Redis down", goodBody, errors.New("refused"), http.StatusServiceUnavailable, `{"error":"try again later"}`},
		{"not JSON", "hello", nil, http.StatusBadRequest, `{"error":"body: `},
		{"unknown field", `{"cc": ""}`, nil, http.StatusBadRequest, `{"error":"body: `},
		{"bad address", `{"to": "ada", "subject": "x"}`, nil, http.StatusBadRequest, `{"error":"invalid email: to: `},
		{"too large", `{"to": "` + strings.Repeat("a", maxBody), nil, http.StatusBadRequest, `{"error":"body: `},
	} {
		t.Run(tc.name, func(t *testing.T) {
			reply := post(t, &stubQueue{err: tc.err}, tc.body, "")
			if reply.Code != tc.status || !strings.HasPrefix(reply.Body.String(), tc.reply) {
				t.Errorf("got %d %s, want %d %s", reply.Code, reply.Body, tc.status, tc.reply)
			}
		})
	}
}

func TestPostEmailIdempotencyKeyIsTheTaskID(t *testing.T) {
	var queue stubQueue
	if reply := post(t, &queue, goodBody, "order-7"); reply.Code != http.StatusAccepted {
		t.Fatalf("got %d %s", reply.Code, reply.Body)
	}
	if len(queue.opts) != 2 || queue.opts[0].Type() != asynq.TaskIDOpt || queue.opts[0].Value() != "order-7" {
		t.Errorf("options %v, want the task ID order-7 and a retention", queue.opts)
	}

	if reply := post(t, &queue, goodBody, strings.Repeat("k", maxKey+1)); reply.Code != http.StatusBadRequest {
		t.Errorf("key too long: got %d, want 400", reply.Code)
	}
}

func TestPostEmailWithoutKeyIsUnique(t *testing.T) {
	var queue stubQueue
	if reply := post(t, &queue, goodBody, ""); reply.Code != http.StatusAccepted {
		t.Fatalf("got %d %s", reply.Code, reply.Body)
	}
	if len(queue.opts) != 1 || queue.opts[0].Type() != asynq.UniqueOpt {
		t.Errorf("options %v, want one for uniqueness", queue.opts)
	}
}

func post(t *testing.T, queue enqueuer, body, key string) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/emails", strings.NewReader(body))
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	reply := httptest.NewRecorder()
	newHandler(queue).ServeHTTP(reply, request)
	return reply
}
