// Package hosted processes tasks by configuration alone: it posts them to HTTP endpoints or runs
// commands. A task chooses neither the address nor the program.
package hosted

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/asynq-go/asynq"
)

// Config holds all hosted tasks by task type. The zero value hosts nothing.
type Config struct {
	// HTTP holds the settings of all endpoints.
	HTTP HTTP

	// Endpoints and Commands map task types to their handlers. A type must be in only one of them.
	Endpoints map[string]Endpoint
	Commands  map[string]Command
}

// Problem is an invalid field of a configuration.
type Problem struct {
	Field string // path in the file, with dots and indices: "params.0.pattern"
	Text  string // error message, with a remedy
}

// problems collects problems.
type problems []Problem

func (p *problems) add(field, format string, args ...any) {
	*p = append(*p, Problem{Field: field, Text: fmt.Sprintf(format, args...)})
}

// Queues returns the queue of each hosted type.
func (c *Config) Queues() map[string]string {
	queues := make(map[string]string)
	for typename, e := range c.Endpoints {
		queues[typename] = or(e.Queue, typename)
	}
	for typename, cmd := range c.Commands {
		queues[typename] = or(cmd.Queue, typename)
	}
	return queues
}

// Set is a Handler of all hosted tasks of one configuration. It is immutable, and safe for
// concurrent use.
type Set struct {
	handlers map[string]asynq.Handler
	queues   map[string]string // of each type
	close    func()
}

// New returns a Set. The error lists all problems of the configuration.
func New(c Config, log *slog.Logger) (*Set, error) {
	s := &Set{handlers: make(map[string]asynq.Handler), queues: c.Queues()}
	var errs []error
	wrong := func(kind, name string, found []Problem) {
		for _, p := range found {
			errs = append(errs, fmt.Errorf("%s %q: %s: %s", kind, name, p.Field, p.Text))
		}
	}
	wrong("hosted", "http", c.HTTP.Check())
	for _, typename := range slices.Sorted(maps.Keys(c.Endpoints)) {
		e := c.Endpoints[typename]
		wrong("endpoint", typename, e.Check())
	}
	for _, typename := range slices.Sorted(maps.Keys(c.Commands)) {
		cmd := c.Commands[typename]
		wrong("command", typename, cmd.Check())
		if _, both := c.Endpoints[typename]; both {
			errs = append(errs, fmt.Errorf("%q is both an endpoint and a command: rename one of them", typename))
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	client, err := newClient(&c.HTTP)
	if err != nil {
		return nil, err
	}
	s.close = client.CloseIdleConnections
	for typename, e := range c.Endpoints {
		s.handlers[typename] = newEndpoint(e, &c.HTTP, client, log)
	}
	for typename, cmd := range c.Commands {
		h, err := newCommand(cmd, log)
		if err != nil {
			return nil, fmt.Errorf("command %q: %w", typename, err)
		}
		s.handlers[typename] = h
	}
	return s, nil
}

// ProcessTask processes a task. A task whose type is not hosted fails and is retried: the type may
// be configured later. A task in another queue than its type's fails as well: access to one queue
// must not grant access to handlers of another.
func (s *Set) ProcessTask(ctx context.Context, t *asynq.Task) error {
	h, ok := s.handlers[t.Type()]
	if !ok {
		return fmt.Errorf("task type %q is not hosted: add it under hosted, or enqueue it to another queue", t.Type())
	}
	if queue, _ := asynq.GetQueueName(ctx); queue != s.queues[t.Type()] {
		return fmt.Errorf("tasks of type %q are hosted in queue %q only: enqueue it there", t.Type(), s.queues[t.Type()])
	}
	return h.ProcessTask(ctx, t)
}

// Close closes idle connections. Active tasks are not affected.
func (s *Set) Close() { s.close() }

// attempt describes a task attempt to endpoints and programs.
type attempt struct {
	id, queue string
	number    int // from 1
	maxRetry  int
}

func attemptOf(ctx context.Context) attempt {
	var a attempt
	a.id, _ = asynq.GetTaskID(ctx)
	a.queue, _ = asynq.GetQueueName(ctx)
	a.number, _ = asynq.GetRetryCount(ctx)
	a.number++
	a.maxRetry, _ = asynq.GetMaxRetry(ctx)
	return a
}

// escape escapes a text for headers and environment variables: the result is printable ASCII
// without spaces, dots and slashes, percent-encoded. Different texts stay different.
func escape(text string) string {
	return strings.ReplaceAll(url.PathEscape(text), ".", "%2E")
}

// archive returns an error that archives the task, because another attempt would fail the same way.
func archive(format string, args ...any) error {
	return fmt.Errorf("%w: %w", fmt.Errorf(format, args...), asynq.SkipRetry)
}

// storeResult stores the result of a task. If that fails, it logs a warning: repeating completed
// work for its result would be wrong.
func storeResult(ctx context.Context, t *asynq.Task, result []byte, log *slog.Logger) {
	if len(result) == 0 || t.ResultWriter() == nil {
		return
	}
	if _, err := t.ResultWriter().Write(result); err != nil {
		log.WarnContext(ctx, "cannot store the result of a hosted task", "type", t.Type(), "id", t.ResultWriter().TaskID(), "error", err)
	}
}

// excerpt returns the end of an external text, without control characters, for an error.
func excerpt(text []byte, most int) string {
	if len(text) > most {
		text = text[len(text)-most:]
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		if r < ' ' || r == 0x7f || r == utf8.RuneError {
			return -1
		}
		return r
	}, string(text)))
}

// or returns the value, or its default if it is zero.
func or[T comparable](value, standard T) T {
	var zero T
	if value == zero {
		return standard
	}
	return value
}
