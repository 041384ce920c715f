package worker

import (
	"cmp"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/asynq-go/asynq/internal/rdb"
)

// queueState is what a pump knows of one of its queues.
type queueState struct {
	name      string
	weight    int
	maxActive int

	dry     bool      // the last fetch came back short: asked again when told of tasks
	told    bool      // its marker was popped since the last fetch was sent
	asked   bool      // its marker was popped before the last fetch was sent
	flowing bool      // the last fetch left tasks behind: the marker was left then, or is still there from before
	doubted bool      // a fetch with an unknown reply is not undone yet
	shut    bool      // paused: its marker tells nothing
	full    bool      // as many active as allowed, or its order forbids to take one: the marker tells when that has changed
	covered bool      // while a turn is planned: it fetches from the queue, or passes the marker on
	credit  float64   // slots that it is owed from earlier turns
	quietTo time.Time // its marker is not waited for before then
	retryAt time.Time
	fails   int // turns in a row that it refused
	owed    int // settlements that it refused: nothing is fetched before they are through

	complain rate.Sometimes
}

// ready reports whether the queue is to be asked for tasks.
func (q *queueState) ready(now time.Time) bool {
	return !q.dry && !q.doubted && q.owed == 0 && !now.Before(q.retryAt)
}

// capped reports whether only so many tasks of the queue may be active.
func (q *queueState) capped() bool { return q.maxActive > 0 || q.maxActive == rdb.InOrder }

// listens reports whether the queue's marker would tell of tasks that can be taken.
func (q *queueState) listens(now time.Time) bool {
	return q.dry && !q.shut && !now.Before(q.retryAt) && !now.Before(q.quietTo)
}

// share divides n slots among queues: by weight, with what cannot be divided carried over as credit, so that over the turns
// each gets its exact share; or, if strict, all to the first, which the caller has sorted by priority.
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
	shares := make([]int, len(queues))
	for i, q := range queues {
		q.credit += float64(n) * float64(q.weight) / float64(total)
		shares[i] = min(max(int(q.credit), 0), left)
		left -= shares[i]
		q.credit -= float64(shares[i])
	}
	order := slices.Clone(queues)
	slices.SortStableFunc(order, func(a, b *queueState) int { return cmp.Compare(b.credit, a.credit) })
	for _, q := range order[:min(left, len(order))] {
		shares[slices.Index(queues, q)]++
		q.credit--
	}
	for i, q := range queues {
		if shares[i] > 0 {
			give(q, shares[i])
		}
	}
}
