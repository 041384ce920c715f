// Package hosted carries out tasks by configuration alone: it posts them to HTTP endpoints, and runs commands. What is configured can be
// done, and nothing else: a task chooses neither where it is sent nor what is run.
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

// Config are all hosted tasks, by the type of the task. The zero value hosts nothing.
type Config struct {
	// HTTP is what holds for all endpoints.
	HTTP HTTP

	// Endpoints are what tasks are posted to, Commands what tasks run. A type is in one of them.
	Endpoints map[string]Endpoint
	Commands  map[string]Command
}

// Problem is something wrong with one field of a configuration.
type Problem struct {
	Field string // as in the file; with dots and indices where it is further down: "params.0.pattern"
	Text  string // what is wrong, and what to do about it
}

// problems gathers what is wrong.
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

// Set is a Handler of the hosted tasks of one configuration. It does not change, and is safe for concurrent use.
type Set struct {
	handlers map[string]asynq.Handler
	queues   map[string]string // of each type
	close    func()
}

// New makes the handlers. The error tells all that is wrong with the configuration.
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
			errs = append(errs, fmt.Errorf("%q is both an endpoint and a command: give one of them another name", typename))
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

// ProcessTask carries out a task. One of a type that is not hosted fails, and is tried again: it may be configured by then. So does one
// in another queue than its type's: who may use a queue must not thereby reach what is hosted in others.
func (s *Set) ProcessTask(ctx context.Context, t *asynq.Task) error {
	h, ok := s.handlers[t.Type()]
	if !ok {
		return fmt.Errorf("the service hosts no tasks of type %q: add it under hosted, or enqueue it into another queue", t.Type())
	}
	if queue, _ := asynq.GetQueueName(ctx); queue != s.queues[t.Type()] {
		return fmt.Errorf("the service carries out tasks of type %q in the queue %q alone: enqueue it there", t.Type(), s.queues[t.Type()])
	}
	return h.ProcessTask(ctx, t)
}

// Close lets connections go that are not in use. Tasks at work go on.
func (s *Set) Close() { s.close() }

// attempt is what outsiders are told of a task.
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

// plain makes a text safe for headers and environment variables: printable ASCII without spaces, dots and slashes, percent-encoded where
// it is not. Different texts stay different.
func plain(text string) string {
	return strings.ReplaceAll(url.PathEscape(text), ".", "%2E")
}

// archive is an error that sends the task to the archive, because another attempt would end the same way.
func archive(format string, args ...any) error {
	return fmt.Errorf("%w: %w", fmt.Errorf(format, args...), asynq.SkipRetry)
}

// keep stores the result of a task. What was done is done: that the result is lost is no reason to do it again.
func keep(ctx context.Context, t *asynq.Task, result []byte, log *slog.Logger) {
	if len(result) == 0 || t.ResultWriter() == nil {
		return
	}
	if _, err := t.ResultWriter().Write(result); err != nil {
		log.WarnContext(ctx, "the result of a hosted task is lost", "type", t.Type(), "id", t.ResultWriter().TaskID(), "error", err)
	}
}

// excerpt is text from outside, short and printable, for an error.
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
