package rdb

import (
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// Broker makes the transitions of tasks. It is safe for concurrent use.
type Broker struct {
	*script.Conn

	// Later, if not nil, calls f in a new goroutine after d. The package starts no goroutines. If
	// nil, a queue that another process deletes may be missing from the set of queues for up to 30
	// s after its recreation.
	Later func(d time.Duration, f func())

	// RetryBudget limits how long Enqueue retries during a failover. If zero, only go-redis
	// retries. It must be much shorter than a minute, the least TTL left of idempotency
	// records.
	RetryBudget time.Duration

	// MillisecondTimes stores the times of tasks to the millisecond. If false, they are rounded up
	// to whole seconds.
	MillisecondTimes bool

	recoveries atomic.Uint64 // number of recoveries, for their names
}

// New returns a broker that uses the client, which remains the caller's to close. An empty
// namespace means the default one.
func New(client redis.UniversalClient, namespace wire.Namespace) *Broker {
	return &Broker{Conn: script.NewConn(client, namespace)}
}
