package script

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Sequence numbers calls to a queue that must not run twice. Redis stores the codes of the last
// call of each sequence in an idempotency record, so only one goroutine may use a sequence at a
// time.
type Sequence struct {
	Record any // key of the record
	Number uint64

	renewed time.Time
}

// renewRecord is the time after which a skipped number makes a script renew the TTL of the record.
const renewRecord = 30 * time.Second

// Next returns the number of the next call.
func (s *Sequence) Next(now time.Time) uint64 {
	if now.Sub(s.renewed) >= renewRecord {
		s.renewed = now
		s.Number++
	}
	s.Number++
	return s.Number
}

// sequences is the pool of sequences of a queue.
type sequences struct {
	names *sequenceNames

	mu   sync.Mutex
	free []*Sequence
}

// sequenceNames returns the names of the sequences of a connection.
type sequenceNames struct {
	id   string // unique to the connection
	last atomic.Int64
}

func (n *sequenceNames) next() string { return n.id + "-" + strconv.FormatInt(n.last.Add(1), 10) }

// AcquireSequence returns a sequence of calls that no other caller uses.
func (q *Queue) AcquireSequence() *Sequence {
	s := &q.sequences
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.free); n > 0 {
		last := s.free[n-1]
		s.free = s.free[:n-1]
		return last
	}
	return &Sequence{Record: q.Keys.IdempotencyRecord(s.names.next())}
}

// ReleaseSequence makes a sequence available to other callers, unless ctx has ended: then its last
// call may not have been executed yet.
func (q *Queue) ReleaseSequence(ctx context.Context, from *Sequence) {
	if ctx.Err() != nil {
		return
	}
	s := &q.sequences
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = append(s.free, from)
}
