package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/asynq-go/asynq"
)

// Problem is an error as RFC 9457 has it.
type Problem struct {
	Type   string  `json:"type"`
	Title  string  `json:"title"`
	Status int     `json:"status"`
	Detail string  `json:"detail,omitempty"`
	Errors []Wrong `json:"errors,omitempty"`
}

// Wrong is one thing that is wrong with a request.
type Wrong struct {
	Pointer string `json:"pointer"` // a place in the body, as a JSON pointer, or "?name": a parameter of the query
	Detail  string `json:"detail"`
}

func (p *Problem) Error() string { return p.Detail }

// The kinds of problems. Clients tell them apart by Type.
const (
	KindInvalid      = "invalid-request"
	KindUnauthorized = "unauthorized"
	KindForbidden    = "forbidden"
	KindTooLarge     = "too-large"
	KindTooMany      = "too-many-requests"
	KindNotFound     = "not-found"
	KindMethod       = "method-not-allowed"
	KindQueue        = "queue-not-found"
	KindTask         = "task-not-found"
	KindGone         = "task-gone"
	KindIDConflict   = "task-id-conflict"
	KindDuplicate    = "duplicate-task"
	KindState        = "wrong-state"
	KindLease        = "lease-lost"
	KindDeadline     = "deadline-passed"
	KindRedis        = "redis"
	KindRedisFull    = "redis-full"
	KindUnavailable  = "unavailable"
)

// Problemf makes a problem.
func Problemf(status int, kind, format string, args ...any) *Problem {
	return &Problem{Type: "urn:asynq:problem:" + kind, Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf(format, args...)}
}

// Invalid makes the problem of a request with these faults.
func Invalid(wrong ...Wrong) *Problem {
	p := Problemf(http.StatusBadRequest, KindInvalid, "there is something wrong with the request: see errors")
	if len(wrong) == 1 {
		p.Detail = strings.TrimPrefix(wrong[0].Pointer+": ", ": ") + wrong[0].Detail
	}
	p.Errors = wrong
	return p
}

// wrongf makes the problem of a request with one fault.
func wrongf(pointer, format string, args ...any) *Problem {
	return Invalid(Wrong{Pointer: pointer, Detail: fmt.Sprintf(format, args...)})
}

// ProblemOf turns any error into a problem. What it does not know is taken for trouble with Redis, of which clients are told no more.
func ProblemOf(err error) *Problem {
	var p *Problem
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, asynq.ErrQueueNotFound):
		return Problemf(http.StatusNotFound, KindQueue, "there is no such queue")
	case errors.Is(err, asynq.ErrTaskNotFound):
		return Problemf(http.StatusNotFound, KindTask, "there is no such task in the queue")
	case errors.Is(err, asynq.ErrTaskIDConflict):
		return Problemf(http.StatusConflict, KindIDConflict, "the queue has a task with this ID, of another type or with another payload")
	case errors.Is(err, asynq.ErrDuplicateTask):
		return Problemf(http.StatusConflict, KindDuplicate, "another task with the same type and payload holds the uniqueness lock")
	case errors.Is(err, asynq.ErrLeaseExpired):
		return Problemf(http.StatusConflict, KindLease, "the lease has ended, or there never was one: stop working on the task, it is tried again without you")
	case errors.Is(err, asynq.ErrRedisFull):
		return Problemf(http.StatusServiceUnavailable, KindRedisFull, "Redis has no memory for new tasks: try again later")
	case errors.Is(err, asynq.ErrTakerClosed):
		return Problemf(http.StatusServiceUnavailable, KindUnavailable, "the service shuts down: try again")
	default:
		return Problemf(http.StatusServiceUnavailable, KindRedis, "Redis did not answer in order, and the change may have been made or not: try again")
	}
}

// Fail answers with a problem.
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
	body, _ := json.Marshal(p) // strings and numbers: it cannot fail
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n')) // the client has gone
}
