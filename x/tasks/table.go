package tasks

import (
	"errors"
	"fmt"

	"github.com/asynq-go/asynq"
)

// Table lists the tasks of a worker. Each name must occur once.
type Table []Row

// Row is a task with its handler, returned by Handle.
type Row struct {
	settings *settings
	handler  asynq.Handler // nil is an error
	err      error         // error of the definition
}

// Handle returns a row of a Table for a task without a Definition: the handler decodes the payload
// itself.
func Handle(name string, handler asynq.Handler, opts ...Option) Row {
	s, err := newSettings(name, nil, opts)
	return Row{settings: s, handler: handler, err: err}
}

// Handler returns a handler of all tasks of the table, for tests with x/asynqtest. It returns
// ErrDefinition if the table is invalid.
func (t Table) Handler() (asynq.Handler, error) {
	all, err := t.plan(&asynq.Config{})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// plan adds the table to a configuration and returns its handlers.
func (t Table) plan(cfg *asynq.Config) (handlers, error) {
	if len(t) == 0 {
		return nil, fmt.Errorf("%w: the table is empty", ErrDefinition)
	}
	all := make(handlers, len(t))
	byQueue := make(map[string]*settings)
	cfg.Queues, cfg.QueueConcurrency = make(map[string]int), nil
	configs := make(map[string]asynq.QueueConfig)
	for queue, c := range cfg.QueueConfigs {
		configs[queue] = asynq.QueueConfig{Group: c.Group}
	}
	cfg.QueueConfigs = configs
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
			wrong("%w: duplicate task %q in the table", ErrDefinition, s.name)
		}
		all[s.name] = row.handler
		queue := s.queue()
		if other := byQueue[queue]; other != nil && (!other.sameLimits(s) || other.weight != s.weight) {
			wrong("%w: %q and %q share queue %q but differ in MaxRun, InOrder, Partitions or Weight", ErrDefinition, other.name, s.name, queue)
		}
		byQueue[queue] = s
		cfg.Queues[queue] = s.weight
		c := s.limits()
		c.Group = configs[queue].Group
		configs[queue] = c
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	cfg.RetryDelayFunc = retryDelay(t, cfg.RetryDelayFunc)
	return all, nil
}
