package apiv2

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/bulk"
	"github.com/asynq-go/asynq/x/web/internal/show"
)

// Problem is an error in the form of RFC 9457.
type Problem struct {
	Type   string  `json:"type" doc:"about:blank, or urn:asynq:problem:KIND."`
	Title  string  `json:"title"`
	Status int     `json:"status"`
	Detail string  `json:"detail,omitempty" doc:"The cause, and what to do about it."`
	Errors []Wrong `json:"errors,omitempty" doc:"The invalid parts of the request."`

	Discards int `json:"discards,omitempty" doc:"For archive-full: the number of archived tasks that would be deleted."`
}

// Wrong is one invalid part of a request.
type Wrong struct {
	Parameter string `json:"parameter,omitempty" doc:"The name of a query parameter."`
	Pointer   string `json:"pointer,omitempty" doc:"A JSON pointer into the request body."`
	Detail    string `json:"detail"`
}

func (p *Problem) Error() string { return p.Detail }

// The kinds of problems with a type of their own.
const (
	kindInvalid     = "invalid-request"
	kindQueue       = "queue-not-found"
	kindTask        = "task-not-found"
	kindEntry       = "schedule-not-found"
	kindFlow        = "flow-not-found"
	kindServer      = "server-not-found"
	kindRemote      = "no-remote-control"
	kindIDConflict  = "task-id-conflict"
	kindDuplicate   = "duplicate-task"
	kindState       = "wrong-state"
	kindArchiveFull = "archive-full"
	kindNotEmpty    = "queue-not-empty"
	kindChanged     = "task-has-changed"
	kindRedis       = "redis"
	kindRedisFull   = "redis-full"
	kindUnavailable = "unavailable"
)

// problemf returns a problem. If kind is empty, its type is about:blank.
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

// invalid returns the problem of an invalid request.
func invalid(status int, wrong ...Wrong) *Problem {
	detail := "the request is invalid: see errors"
	if len(wrong) == 1 {
		detail = wrong[0].Detail
	}
	p := problemf(status, kindInvalid, "%s", detail)
	p.Errors = wrong
	return p
}

// badParam returns the problem of one invalid parameter, unprocessable that of one invalid location
// in the body.
func badParam(name, format string, args ...any) *Problem {
	return invalid(http.StatusBadRequest, Wrong{Parameter: name, Detail: fmt.Sprintf(format, args...)})
}

func unprocessable(pointer, format string, args ...any) *Problem {
	return invalid(http.StatusUnprocessableEntity, Wrong{Pointer: pointer, Detail: fmt.Sprintf(format, args...)})
}

// problemOf converts any error to a problem. Unknown errors count as errors of Redis.
func problemOf(err error) *Problem {
	var p *Problem
	var spec *bulk.SpecError
	var full *bulk.FullError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &spec):
		return unprocessable("/"+spec.Field, "%s", spec.Detail)
	case errors.As(err, &full):
		p := problemf(http.StatusConflict, kindArchiveFull, "%v. Set discard_oldest to accept this", full)
		p.Discards = full.Discards
		return p
	case errors.Is(err, asynq.ErrQueueNotFound):
		return problemf(http.StatusNotFound, kindQueue, "%v", err)
	case errors.Is(err, asynq.ErrTaskNotFound):
		return problemf(http.StatusNotFound, kindTask, "%v", err)
	case errors.Is(err, asynq.ErrSchedulerEntryNotFound):
		return problemf(http.StatusNotFound, kindEntry, "%v", err)
	case errors.Is(err, asynq.ErrServerNotFound):
		return problemf(http.StatusNotFound, kindServer, "%v", err)
	case errors.Is(err, asynq.ErrRemoteControl):
		return problemf(http.StatusConflict, kindRemote, "%v", err)
	case errors.Is(err, asynq.ErrCommandUnconfirmed):
		return problemf(http.StatusServiceUnavailable, kindUnavailable, "%v", err)
	case errors.Is(err, asynq.ErrTaskChanged):
		return problemf(http.StatusPreconditionFailed, kindChanged, "the task has changed: read it again")
	case errors.Is(err, asynq.ErrTaskIDConflict):
		return problemf(http.StatusConflict, kindIDConflict, "%v", err)
	case errors.Is(err, asynq.ErrDuplicateTask):
		return problemf(http.StatusConflict, kindDuplicate, "%v", err)
	case errors.Is(err, asynq.ErrQueueNotEmpty):
		return problemf(http.StatusConflict, kindNotEmpty, "%v: use force=true to delete the queue and its tasks", err)
	case errors.Is(err, asynq.ErrRedisFull):
		return problemf(http.StatusServiceUnavailable, kindRedisFull, "%v", err)
	case errors.Is(err, asynq.ErrCursor):
		return badParam("cursor", "invalid cursor: start again without a cursor")
	case errors.Is(err, bulk.ErrBusy), errors.Is(err, bulk.ErrClosed):
		return problemf(http.StatusServiceUnavailable, kindUnavailable, "%v", err)
	default:
		return problemf(http.StatusServiceUnavailable, kindRedis, "%s", show.RedisError(err))
	}
}

// fail responds with a problem.
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
		_ = json.NewEncoder(c.w).Encode(p) // fails only if the client has disconnected
	}
}
