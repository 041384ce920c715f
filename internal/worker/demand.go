package worker

import (
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
)

// demand is what tasks of a lane are wanted for: the free slots of a pool (slots.go), or calls of
// Receive (receiver.go). Its methods may be called while the fetcher's lock is held.
type demand interface {
	// settings returns the weight, the concurrency limit and the partitions of a queue.
	settings(queue string) (weight, maxActive int, partitions *rdb.Partitions)
	// wants reports whether tasks of a queue are wanted, now or later.
	wants(queue string) bool
	// accepts reports whether a task of a queue could be accepted now.
	accepts(queue string) bool
	// anyFree reports whether a task of any queue could be accepted now. If not, the fetcher is
	// woken when it can.
	anyFree() bool
	// retryAt returns when to plan a round trip again although nothing has changed; the zero time
	// if there is no need to.
	retryAt(now time.Time) time.Time
	// setHealthy records whether the lane's last round trip succeeded.
	setHealthy(healthy bool)
	// newClaim returns a claim for the round trips that one loop makes.
	newClaim() claim

	// opened and closed are called when the fetcher holds an attempt, and when it no longer does.
	opened(a *Attempt)
	closed(a *Attempt)
}

// claim is the part of the demand that the fetches of one round trip are for.
type claim interface {
	// plan divides the demand among the queues, which are sorted by weight. It calls fetch for each
	// that gets a part.
	plan(queues []*queueState, fetch func(q *queueState, n int))
	// sent is called when the round trip is sent, with or without fetches.
	sent()
	// land is called when the round trip has ended. ok means that Redis replied. It adds to the
	// effects the tasks for the workers to run, those that are not wanted any more, and whether
	// there is still demand that other lanes may meet.
	land(ok bool, fetches []*fetch, e *effects)
}
