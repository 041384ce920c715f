package tasks

import (
	"errors"
	"fmt"

	"github.com/asynq-go/asynq"
)

// Table is what a worker works on: each name once.
type Table []Row

// Row is a task with the handler that does it: made by Handle, of a Definition or of this package.
type Row struct {
	settings *settings
	handler  asynq.Handler // nil: it was made without
	err      error         // of the definition
}

// Handle is a row of a Table for a task that has no Definition: the handler reads the payload itself.
func Handle(name string, handler asynq.Handler, opts ...Option) Row {
	s, err := settle(name, opts)
	return Row{settings: s, handler: handler, err: err}
}

// Handler does the tasks of the table, without a worker: for tests with x/asynqtest. The error is ErrDefinition where the table cannot be.
func (t Table) Handler() (asynq.Handler, error) {
	all, err := t.plan(&asynq.Config{})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// plan enters the table into a configuration, and returns its handlers.
func (t Table) plan(cfg *asynq.Config) (handlers, error) {
	if len(t) == 0 {
		return nil, fmt.Errorf("%w: the table is empty", ErrDefinition)
	}
	all := make(handlers, len(t))
	byQueue := make(map[string]*settings)
	cfg.Queues, cfg.QueueConcurrency = make(map[string]int), make(map[string]int)
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for i, row := range t {
		s := row.settings
		switch {
		case s == nil:
			wrong("%w: row %d of the table is empty", ErrDefinition, i)
			continue
		case row.err != nil:
			errs = append(errs, row.err)
			continue
		case row.handler == nil:
			wrong("%w: %q has no handler", ErrDefinition, s.name)
		case all[s.name] != nil:
			wrong("%w: %q is in the table twice", ErrDefinition, s.name)
		}
		all[s.name] = row.handler
		queue := s.queue()
		if other := byQueue[queue]; other != nil && (other.concurrency() != s.concurrency() || other.weight != s.weight) {
			wrong("%w: %q and %q share queue %q, but not MaxRun, InOrder and Weight", ErrDefinition, other.name, s.name, queue)
		}
		byQueue[queue] = s
		cfg.Queues[queue] = s.weight
		if n := s.concurrency(); n != 0 {
			cfg.QueueConcurrency[queue] = n
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	cfg.RetryDelayFunc = retryDelay(t, cfg.RetryDelayFunc)
	return all, nil
}
