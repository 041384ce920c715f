// Package worker processes tasks: it fetches them, runs the handlers and settles the outcomes.
//
// A Pool has a fixed number of slots and one Fetcher per lane. A lane is the set of queues that
// share round trips: all queues of a standalone Redis, or those of one primary of a Cluster.
//
//	        fetch (free slots)              submit
//	Redis ----------------------> Fetcher ----------> worker goroutine: context, handler, outcome
//	      <----------------------         <----------
//	        settle (finished)              addFinished
//
// One round trip to Redis carries both directions: it settles the attempts that finished since the
// last one, and fetches tasks for the free slots. A Fetcher has at most two round trips in flight.
//
// What a Fetcher knows and decides is its lane, which does no I/O:
//
//   - lane.go: what a round trip sends (plan), and what its replies change (apply)
//   - reclaim.go: fetches whose replies were lost
//   - timing.go: when it acts without an outcome or a reply: markers, polls, delays
//   - queue.go: the state of a queue, and the division of demand among queues
//   - demand.go: the interface of what tasks are wanted for
//   - slots.go: the demand of handlers: free slots, divided among lanes
//   - receiver.go, receiver_lease.go: the demand of callers that receive tasks, and their leases
//
// The other files act on it:
//
//   - pool.go, config.go: the pool, its lanes and its configuration; the interfaces of Redis calls
//   - fetcher.go, roundtrip.go: the calls to Redis, by loops and by workers
//   - exec.go, attempt.go, context.go: one attempt, from its fetch to its outcome
//   - lease.go, watch.go: extension and loss of leases; handlers that do not return
//   - observe.go: the outcomes that observers see, and the calls to them
//   - safecall.go, errors.go: calls of user code, which may panic; its errors that control retries
//
// Everything that repeats (round trips, waits, lease extension, the check for stuck handlers) is a
// tick function for package runner. The package starts goroutines only for handlers and callbacks.
package worker
