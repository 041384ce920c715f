package apiv1

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/show"
)

// answer writes a value as JSON. It encodes the value before it sends the first byte, so that an
// encoding error has a status.
func (h *handler) answer(x *exchange, v any) {
	var body bytes.Buffer
	if err := json.NewEncoder(&body).Encode(v); err != nil {
		h.fail(x, fmt.Errorf("apiv1: encode response: %w", err))
		return
	}
	header := x.w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(body.Len()))
	x.w.WriteHeader(http.StatusOK)
	_, _ = x.w.Write(body.Bytes()) // fails only if the client has disconnected
}

// problem responds with an error in the form of RFC 9457.
func problem(w http.ResponseWriter, status int, detail string) {
	body, err := json.Marshal(struct {
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{http.StatusText(status), status, detail})
	if err != nil { // cannot fail: two strings and a number
		body = nil
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // fails only if the client has disconnected
}

func notFound(w http.ResponseWriter) {
	problem(w, http.StatusNotFound, "no such route: see docs/WEB_API.md")
}

// notAllowed responds to a method that the path does not support.
func notAllowed(w http.ResponseWriter, method string, methods []string) {
	w.Header().Set("Allow", strings.Join(methods, ", "))
	if method == http.MethodOptions {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	problem(w, http.StatusMethodNotAllowed, fmt.Sprintf("method %s is not allowed: use %s", method, strings.Join(methods, " or ")))
}

// badRequest is an error of the client.
type badRequest struct {
	status int
	detail string
}

func (b *badRequest) Error() string { return b.detail }

func bad(format string, a ...any) error {
	return &badRequest{status: http.StatusBadRequest, detail: fmt.Sprintf(format, a...)}
}

// fail responds with an error. It logs errors that are not the client's.
func (h *handler) fail(x *exchange, err error) {
	status := statusOf(err)
	if status >= http.StatusInternalServerError && x.r.Context().Err() == nil {
		h.Logger.ErrorContext(x.r.Context(), "request failed", "method", x.r.Method, "path", x.r.URL.EscapedPath(), "status", status, "err", err)
	}
	detail := err.Error()
	if status >= http.StatusInternalServerError {
		detail = show.RedisError(err)
	}
	problem(x.w, status, detail)
}

// statusOf returns the status of an error.
func statusOf(err error) int {
	var wrong *badRequest
	var large *http.MaxBytesError
	var replied redis.Error
	switch {
	case errors.As(err, &wrong):
		return wrong.status
	case errors.As(err, &large):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, asynq.ErrQueueNotFound), errors.Is(err, asynq.ErrTaskNotFound):
		return http.StatusNotFound
	case errors.Is(err, asynq.ErrQueueNotEmpty):
		return http.StatusBadRequest // what the existing server says
	case refused(err):
		return http.StatusConflict
	case errors.As(err, &replied):
		return http.StatusInternalServerError
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout
	default:
		return http.StatusServiceUnavailable
	}
}

// refused reports whether the Inspector itself refused a change because of the state of the task or
// queue. Such an error wraps no other error; errors of Redis and of the network are always wrapped.
func refused(err error) bool {
	var wrong *badRequest
	return errors.Unwrap(err) == nil && !errors.As(err, &wrong) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// ofTask reports whether an error is about one task, so that the next task may succeed.
func ofTask(err error) bool { return errors.Is(err, asynq.ErrTaskNotFound) || refused(err) }
