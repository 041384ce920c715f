package asynq

import (
	"errors"
	"time"

	"github.com/asynq-go/asynq/internal/access"
	"github.com/asynq-go/asynq/internal/inspect"
	"github.com/asynq-go/asynq/internal/rdb"
)

// This file gives package flow what it needs of the types of this package.

func init() { //nolint:gochecknoinits // Package access cannot import this one.
	access.Broker = func(client any) *rdb.Broker { return client.(*Client).broker }
	access.Inspector = func(inspector any) (*rdb.Broker, *inspect.Inspector) {
		i := inspector.(*Inspector)
		return i.broker, i.inspector
	}
	access.NewTask = func(task, opts any, now time.Time) (*access.Task, error) {
		return newMember(task.(*Task), opts.([]Option), now)
	}
	access.PublicError = publicError
}

// newMember prepares a task that becomes a member of a flow.
func newMember(t *Task, opts []Option, now time.Time) (*access.Task, error) {
	made, err := newCreation(t, opts, rdb.New(nil, "").Keys, now)
	if err != nil {
		return nil, err
	}
	switch {
	case made.order.Mode != nil, made.order.Lock != "":
		return nil, errors.New("asynq: a task of a flow cannot have Unique, UniqueKey, IdempotencyKey, Debounce or Throttle")
	case made.order.Group != "":
		return nil, errors.New("asynq: a task of a flow cannot be in a group")
	}
	m := &access.Task{Message: &made.msg, New: &made.order, OwnID: !made.order.RandomID, Info: func() any { return made.info() }}
	if made.order.ProcessAt > 0 {
		m.ProcessAt = made.next
		for _, list := range [][]Option{t.opts, opts} {
			for _, opt := range list {
				switch {
				case opt == nil:
				case opt.Type() == ProcessInOpt:
					m.Delay = made.next.Sub(now)
				case opt.Type() == ProcessAtOpt:
					m.Delay = 0
				}
			}
		}
	}
	return m, nil
}
