// Package access gives the public packages of this module what they need of the types of package
// asynq and users do not. Package asynq sets the variables.
package access

import (
	"time"

	"github.com/asynq-go/asynq/internal/inspect"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
)

// Task is a task that package asynq has prepared from an *asynq.Task and options.
type Task struct {
	Message   *wire.TaskMessage // not encoded
	New       *rdb.NewTask      // without its message
	OwnID     bool              // the ID is that of the caller
	Delay     time.Duration     // of ProcessIn, if that is the last option that sets a time
	ProcessAt time.Time         // zero: at once
	Info      func() any        // returns the initial state, an *asynq.TaskInfo
}

var (
	// Broker returns the broker of an *asynq.Client.
	Broker func(client any) *rdb.Broker

	// Inspector returns the broker and the inspector of an *asynq.Inspector.
	Inspector func(inspector any) (*rdb.Broker, *inspect.Inspector)

	// NewTask prepares an *asynq.Task with options of type []asynq.Option. It returns an error for
	// options of which no member of a flow can make use: locks, groups and idempotency keys.
	NewTask func(task, opts any, now time.Time) (*Task, error)

	// PublicError returns the error of package asynq for a task that was not created.
	PublicError func(err error) error
)
