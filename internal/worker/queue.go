package worker

import (
	"cmp"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/asynq-go/asynq/internal/rdb"
)

// phase is what the last reply showed about a queue.
type phase int

const (
	ready      phase = iota // it may have tasks: fetched from
	empty                   // it had fewer tasks than requested: not fetched from until a wake or a poll
	paused                  // like empty, but its marker has no meaning
	atCapacity              // its limit or order allows no further task: a marker follows when that changes
	unknown                 // the reply to a fetch was lost: not fetched from until its tasks are reclaimed
)

// queueState is what a fetcher knows about one of its queues.
type queueState struct {
	name      string
	weight    int
	maxActive int

	partitions   *rdb.Partitions // nil: it has none
	again        []rdb.Ended     // ended tasks to name again in the next fetch
	repeated     bool            // the last fetch has named some again
	limitedUntil time.Time       // when to check the limits of its partitions; zero: none holds tasks
	sortedAt     int64           // when a fetch last sorted its inbox, as uptime
	sweptAt      int64           // when a fetch last checked its running tasks, as uptime
	ends         int             // tasks that have ended since countedAt
	countedAt    int64           // as uptime; 0: no tasks remain in the queue
	endsSlowly   bool            // fewer than minEndRate when they were last counted

	phase            phase
	wakePending      bool      // its marker was popped after the last fetch was sent
	markerLeft       bool      // the last fetch left tasks behind, and so a marker
	credit           float64   // slots left over from earlier round trips, or taken in advance
	bundle           int       // how many tasks it gets at once if its share is less
	share, unit      int       // in share: the slots that it gets, and how many of them at once
	wakeBackoffUntil time.Time // its marker is ignored until then
	retryAt          time.Time
	failures         int   // consecutive rejections
	measured         int64 // when a fetch last measured how long tasks have waited, as uptime
	unsettled        int   // settlements without a reply or rejected; nothing is fetched before they succeed

	errorLog rate.Sometimes
}

// fetchable reports whether tasks may be fetched from the queue now.
func (q *queueState) fetchable(now time.Time) bool {
	return q.phase == ready && q.unsettled == 0 && !now.Before(q.retryAt)
}

// idle reports whether the queue is not fetched from until a wake or a poll.
func (q *queueState) idle() bool { return q.phase != ready && q.phase != unknown }

// wake makes the queue ready, because it may have tasks.
func (q *queueState) wake() {
	if q.phase != unknown {
		q.phase = ready
	}
}

// found records what a fetch found, unless the fetch of another round trip is unknown.
func (q *queueState) found(p phase) {
	if q.phase != unknown {
		q.phase = p
	}
	if p != ready {
		q.credit = 0
	}
}

// capped reports whether the number of active tasks of the queue is limited.
func (q *queueState) capped() bool { return q.maxActive > 0 || q.maxActive == rdb.InOrder }

// wantsMarker reports whether a marker of the queue would mean that there are tasks to fetch.
func (q *queueState) wantsMarker(now time.Time) bool {
	return (q.phase == empty || q.phase == atCapacity) && !now.Before(q.retryAt) && !now.Before(q.wakeBackoffUntil)
}

// byImportance compares queues by weight, highest first, and then by name.
func byImportance(a, b *queueState) int {
	return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.name, b.name))
}

// share divides n slots among queues by weight. The remainder is carried over as credit, so that
// each queue gets its exact share over time. Queues with a share of less than a bundle alternate:
// some get a bundle, others none. If strict is set, the first queue gets all slots; the caller has
// sorted the queues by priority.
func share(n int, queues []*queueState, strict bool, give func(q *queueState, n int)) {
	if n == 0 || len(queues) == 0 {
		return
	}
	if strict || len(queues) == 1 {
		give(queues[0], n)
		return
	}
	total := 0
	for _, q := range queues {
		total += q.weight
	}
	left := n
	for _, q := range queues {
		part := float64(n) * float64(q.weight) / float64(total)
		if q.unit = 1; part < float64(q.bundle) {
			q.unit = q.bundle
		}
		q.credit += part
		q.share = 0
		q.add(min(max(int(q.credit), 0)/q.unit*q.unit, left))
		left -= q.share
	}
	order := slices.Clone(queues)
	slices.SortStableFunc(order, func(a, b *queueState) int { return cmp.Compare(b.credit, a.credit) })
	for _, q := range order {
		more := min(q.unit, left)
		q.add(more)
		left -= more
	}
	for _, q := range queues {
		if q.share > 0 {
			give(q, q.share)
		}
	}
}

// add adds n slots to the share of the queue.
func (q *queueState) add(n int) {
	q.share += n
	q.credit -= float64(n)
}
