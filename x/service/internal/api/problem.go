package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/asynq-go/asynq"
)

// Problem is a problem detail (RFC 9457).
type Problem struct {
	Type   string       `json:"type"`
	Title  string       `json:"title"`
	Status int          `json:"status"`
	Detail string       `json:"detail,omitempty"`
	Errors []FieldError `json:"errors,omitempty"`
}

// FieldError is one invalid value of a request.
type FieldError struct {
	Pointer string `json:"pointer"` // JSON pointer into the body, or "?name" for a query parameter
	Detail  string `json:"detail"`
}

func (p *Problem) Error() string { return p.Detail }

// The kinds of problems. Type holds the kind after its prefix "urn:asynq:problem:".
const (
	KindInvalid       = "invalid-request"
	KindUnauthorized  = "unauthorized"
	KindForbidden     = "forbidden"
	KindTooLarge      = "too-large"
	KindEncoding      = "unsupported-encoding"
	KindTooMany       = "too-many-requests"
	KindNotFound      = "not-found"
	KindMethod        = "method-not-allowed"
	KindQueue         = "queue-not-found"
	KindQueueNotEmpty = "queue-not-empty"
	KindQueueActive   = "queue-active"
	KindTask          = "task-not-found"
	KindGone          = "task-gone"
	KindIDConflict    = "task-id-conflict"
	KindDuplicate     = "duplicate-task"
	KindState         = "wrong-state"
	KindArchiveFull   = "archive-full"
	KindWorkflow      = "workflow-not-found"
	KindNode          = "node-not-found"
	KindNoResult      = "no-result"
	KindFlowConflict  = "workflow-id-conflict"
	KindLease         = "lease-lost"
	KindDeadline      = "deadline-passed"
	KindRedis         = "redis"
	KindRedisFull     = "redis-full"
	KindUnavailable   = "unavailable"
)

// Problemf returns a problem with a formatted detail.
func Problemf(status int, kind, format string, args ...any) *Problem {
	return &Problem{Type: "urn:asynq:problem:" + kind, Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf(format, args...)}
}

// Invalid returns the problem of a request with these errors.
func Invalid(wrong ...FieldError) *Problem {
	p := Problemf(http.StatusBadRequest, KindInvalid, "the request is invalid: see errors")
	if len(wrong) == 1 {
		p.Detail = strings.TrimPrefix(wrong[0].Pointer+": ", ": ") + wrong[0].Detail
	}
	p.Errors = wrong
	return p
}

// invalidf returns the problem of a request with one error.
func invalidf(pointer, format string, args ...any) *Problem {
	return Invalid(FieldError{Pointer: pointer, Detail: fmt.Sprintf(format, args...)})
}

// ProblemOf converts an error into a problem. Unknown errors are reported as Redis errors, without
// details.
func ProblemOf(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	if p := flowProblem(err); p != nil {
		return p
	}
	switch {
	case errors.Is(err, asynq.ErrQueueNotFound):
		return Problemf(http.StatusNotFound, KindQueue, "queue not found")
	case errors.Is(err, asynq.ErrTaskNotFound):
		return Problemf(http.StatusNotFound, KindTask, "task not found in the queue")
	case errors.Is(err, asynq.ErrTaskIDConflict):
		return Problemf(http.StatusConflict, KindIDConflict, "the queue has a task with this ID but another type or payload")
	case errors.Is(err, asynq.ErrDuplicateTask):
		return Problemf(http.StatusConflict, KindDuplicate, "%s", duplicateText(err))
	case errors.Is(err, asynq.ErrLeaseExpired):
		return Problemf(http.StatusConflict, KindLease, "the lease has expired or does not exist: stop processing the task; another worker receives it")
	case errors.Is(err, asynq.ErrRedisFull):
		return Problemf(http.StatusServiceUnavailable, KindRedisFull, "Redis is out of memory: try again later")
	case errors.Is(err, asynq.ErrReceiverClosed):
		return Problemf(http.StatusServiceUnavailable, KindUnavailable, "the service is shutting down: try again")
	default:
		return Problemf(http.StatusServiceUnavailable, KindRedis, "Redis is unreachable or returned an error: try again. The change may have taken effect")
	}
}

// duplicateText names the task that holds a lock, if it is known.
func duplicateText(err error) string {
	var d *asynq.DuplicateTaskError
	if errors.As(err, &d) && d.TaskID != "" {
		return "the task " + strconv.Quote(d.TaskID) + " holds the uniqueness lock"
	}
	return "another task holds the uniqueness lock"
}

// Fail writes a problem as the response.
func Fail(w http.ResponseWriter, p *Problem) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	switch {
	case p.Status == http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="asynq"`)
	case p.Status == http.StatusServiceUnavailable && h.Get("Retry-After") == "":
		h.Set("Retry-After", "1")
	}
	body, _ := json.Marshal(p) // cannot fail: strings and integers
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n')) // fails only if the client has disconnected
}
