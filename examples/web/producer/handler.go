package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/asynq-go/asynq"

	"github.com/asynq-go/asynq/examples/web/tasks"
)

const (
	// maxBody is the largest request body in bytes.
	maxBody = 64 << 10
	// enqueueTimeout bounds the wait for Redis. It is well below the server's WriteTimeout, so that
	// the client gets a response.
	enqueueTimeout = 3 * time.Second
	// uniqueFor is how long the same email is refused while the first is not yet sent.
	uniqueFor = 10 * time.Minute
	// keyRetention is how long an idempotency key is kept after its email was sent.
	keyRetention = 24 * time.Hour
	// maxKey is the longest idempotency key in bytes. It becomes the ID of the task, and a part of
	// its keys in Redis.
	maxKey = 128
)

// An enqueuer is the part of *asynq.Client that the handler needs.
type enqueuer interface {
	EnqueueContext(ctx context.Context, task *asynq.Task, opts ...asynq.Option) (*asynq.TaskInfo, error)
}

// newHandler returns the routes of the service.
func newHandler(queue enqueuer) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /emails", postEmail(queue))
	return mux
}

// postEmail enqueues the email of the request body and answers 202 with the ID of its task, or 409
// if it is enqueued already. A header Idempotency-Key makes a request safe to repeat: it becomes
// the ID of the task. Without one, an email with the same recipient and subject counts as the same.
func postEmail(queue enqueuer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var email tasks.Email
		body := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
		body.DisallowUnknownFields()
		if err := body.Decode(&email); err != nil {
			writeError(w, http.StatusBadRequest, "body: "+err.Error())
			return
		}
		task, err := tasks.NewEmail(email)
		if err != nil {
			writeError(w, http.StatusBadRequest, err.Error())
			return
		}
		key := r.Header.Get("Idempotency-Key")
		if len(key) > maxKey {
			writeError(w, http.StatusBadRequest, "Idempotency-Key: too long")
			return
		}

		ctx, cancel := context.WithTimeout(r.Context(), enqueueTimeout)
		defer cancel()
		info, err := queue.EnqueueContext(ctx, task, onlyOnce(key)...)
		switch {
		case errors.Is(err, asynq.ErrDuplicateTask), errors.Is(err, asynq.ErrTaskIDConflict):
			writeError(w, http.StatusConflict, "this email is enqueued already")
		case err != nil:
			slog.ErrorContext(ctx, "enqueue failed", "error", err)
			writeError(w, http.StatusServiceUnavailable, "try again later")
		default:
			writeJSON(w, http.StatusAccepted, map[string]string{"id": info.ID})
		}
	}
}

// onlyOnce returns the options by which an email is sent once, even if its request is repeated.
func onlyOnce(key string) []asynq.Option {
	if key == "" {
		return []asynq.Option{asynq.Unique(uniqueFor)}
	}
	// The ID is in use as long as the task exists. Retention keeps the task, and so the key, after
	// the email was sent.
	return []asynq.Option{asynq.TaskID(key), asynq.Retention(keyRetention)}
}

func writeError(w http.ResponseWriter, status int, message string) {
	writeJSON(w, status, map[string]string{"error": message})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		slog.Warn("write response failed", "error", err) // The client has gone.
	}
}
