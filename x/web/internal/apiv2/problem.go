package apiv2

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/bulk"
)

// Problem is an error as RFC 9457 has it.
type Problem struct {
	Type   string  `json:"type" doc:"about:blank, or the kind of the problem: urn:asynq:problem:KIND."`
	Title  string  `json:"title"`
	Status int     `json:"status"`
	Detail string  `json:"detail,omitempty" doc:"What is wrong, and what to do."`
	Errors []Wrong `json:"errors,omitempty" doc:"What is wrong with the request, part by part."`
}

// Wrong is one thing that is wrong with a request.
type Wrong struct {
	Parameter string `json:"parameter,omitempty" doc:"A parameter of the query."`
	Pointer   string `json:"pointer,omitempty" doc:"A place in the body, as a JSON pointer."`
	Detail    string `json:"detail"`
}

func (p *Problem) Error() string { return p.Detail }

// Kinds of problems that have a type of their own.
const (
	kindInvalid     = "invalid-request"
	kindQueue       = "queue-not-found"
	kindTask        = "task-not-found"
	kindEntry       = "schedule-not-found"
	kindIDConflict  = "task-id-conflict"
	kindDuplicate   = "duplicate-task"
	kindState       = "wrong-state"
	kindNotEmpty    = "queue-not-empty"
	kindChanged     = "task-has-changed"
	kindRedis       = "redis"
	kindRedisFull   = "redis-full"
	kindUnavailable = "unavailable"
)

// problemf makes a problem; without a kind its type is about:blank.
func problemf(status int, kind, format string, args ...any) *Problem {
	p := &Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf(format, args...)}
	if kind != "" {
		p.Type = "urn:asynq:problem:" + kind
	}
	return p
}

func notFound(format string, args ...any) *Problem {
	return problemf(http.StatusNotFound, "", format, args...)
}

// invalid makes the problem of a request with these faults.
func invalid(status int, wrong ...Wrong) *Problem {
	detail := "there is something wrong with the request: see errors"
	if len(wrong) == 1 {
		detail = wrong[0].Detail
	}
	p := problemf(status, kindInvalid, "%s", detail)
	p.Errors = wrong
	return p
}

// badParam is the problem of one wrong parameter, unprocessable that of a wrong place in the body.
func badParam(name, format string, args ...any) *Problem {
	return invalid(http.StatusBadRequest, Wrong{Parameter: name, Detail: fmt.Sprintf(format, args...)})
}

func unprocessable(pointer, format string, args ...any) *Problem {
	return invalid(http.StatusUnprocessableEntity, Wrong{Pointer: pointer, Detail: fmt.Sprintf(format, args...)})
}

// problemOf turns any error into a problem. What it does not know is taken for trouble with Redis.
func problemOf(err error) *Problem {
	var p *Problem
	var spec *bulk.SpecError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &spec):
		return unprocessable("/"+spec.Field, "%s", spec.Detail)
	case errors.Is(err, asynq.ErrQueueNotFound):
		return problemf(http.StatusNotFound, kindQueue, "%v", err)
	case errors.Is(err, asynq.ErrTaskNotFound):
		return problemf(http.StatusNotFound, kindTask, "%v", err)
	case errors.Is(err, asynq.ErrSchedulerEntryNotFound):
		return problemf(http.StatusNotFound, kindEntry, "%v", err)
	case errors.Is(err, asynq.ErrTaskChanged):
		return problemf(http.StatusPreconditionFailed, kindChanged, "the task has changed since: read it again")
	case errors.Is(err, asynq.ErrTaskIDConflict):
		return problemf(http.StatusConflict, kindIDConflict, "%v", err)
	case errors.Is(err, asynq.ErrDuplicateTask):
		return problemf(http.StatusConflict, kindDuplicate, "%v", err)
	case errors.Is(err, asynq.ErrQueueNotEmpty):
		return problemf(http.StatusConflict, kindNotEmpty, "%v: delete it with force=true, and its tasks with it", err)
	case errors.Is(err, asynq.ErrRedisFull):
		return problemf(http.StatusServiceUnavailable, kindRedisFull, "%v", err)
	case errors.Is(err, asynq.ErrCursor):
		return badParam("cursor", "this is no cursor of this list: begin without one")
	case errors.Is(err, bulk.ErrBusy), errors.Is(err, bulk.ErrClosed):
		return problemf(http.StatusServiceUnavailable, kindUnavailable, "%v", err)
	default:
		return problemf(http.StatusServiceUnavailable, kindRedis, "%v", err)
	}
}

// fail answers with a problem.
func (c *call) fail(err error) {
	p := problemOf(err)
	if p.Status >= http.StatusInternalServerError && c.r.Context().Err() == nil {
		c.api.Logger.Warn("api: request failed", "method", c.r.Method, "path", c.r.URL.Path, "status", p.Status, "error", err)
	}
	h := c.w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("X-Content-Type-Options", "nosniff")
	if p.Status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "2")
	}
	c.w.WriteHeader(p.Status)
	if c.r.Method != http.MethodHead {
		_ = json.NewEncoder(c.w).Encode(p) // the client has gone
	}
}
