package rollup

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Table is what an Entry counts.
type Table int

// The tables: a type of tasks, a kind of error, or the whole queue.
const (
	TypeTable Table = iota
	ErrorTable
	QueueTable
)

// Entry is one count of a minute.
type Entry struct {
	Minute int64 // since 1970
	Table  Table
	Type   string // empty: all others
	Kind   string // of the error; empty: all others
	Stats  *Stats // of a type or the queue
	Count  int64  // of a kind of error
}

// Batch is one call: the counts of a queue in one hour. A repeated call has the same number.
type Batch struct {
	Queue   string
	Number  uint64 // ascends with each call
	Hour    int64  // since 1970
	Entries []Entry
	Sizes   bool  // store the sizes of the queue, too
	Minute  int64 // of the sizes
}

// The limits of the entries of a call, and of those kept of a queue while Redis refuses them.
const (
	maxEntries     = 100
	maxKeptEntries = 10_000
)

// add adds an entry of a number of attempts. The caller holds the lock.
func (q *queue) add(e Entry, attempts int64) {
	if len(q.entries) >= maxKeptEntries {
		q.dropped += attempts
		return
	}
	q.entries = append(q.entries, e)
}

// Pending returns the names of the queues with counts that are not flushed. It drops queues without
// any.
func (r *Recorder) Pending(now time.Time) (names []string) {
	minute := r.Clock(now).Unix() / 60
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, q := range r.queues {
		if q.sending != nil || len(q.rest)+len(q.entries)+len(q.types)+len(q.errors) > 0 {
			names = append(names, name)
		} else if q.sized < minute-1 && q.dropped == 0 {
			delete(r.queues, name)
		}
	}
	slices.Sort(names)
	return names
}

// Next returns the next call for a queue: that without a reply, or a new one; nil if there is
// nothing to write. Only one caller at a time may use it. sizes requests the sizes of the queue,
// once a minute. collect takes the counts of this minute, too.
func (r *Recorder) Next(name string, now time.Time, sizes, collect bool) *Batch {
	minute := r.Clock(now).Unix() / 60
	q := r.create(name)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.sending != nil {
		return q.sending
	}
	if len(q.rest) == 0 && collect {
		q.collect()
		q.split(name)
	}
	sizes = sizes && q.sized < minute
	switch {
	case len(q.rest) > 0:
		q.sending, q.rest = &q.rest[0], q.rest[1:]
	case sizes:
		q.sending = &Batch{Queue: name, Hour: minute / 60}
	default:
		return nil
	}
	q.sending.Number = r.number.Add(1)
	if sizes && q.sending.Hour == minute/60 {
		q.sending.Sizes, q.sending.Minute = true, minute
	}
	return q.sending
}

// Confirm ends the call that Next returned: Redis has executed it.
func (r *Recorder) Confirm(b *Batch, now time.Time) {
	q := r.create(b.Queue)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.sending == b {
		q.sending = nil
	}
	if b.Sizes {
		q.sized = min(b.Minute, r.Clock(now).Unix()/60) // Redis ignores the sizes of another minute than its own
	}
}

// Dropped returns the number of attempts that were not counted since the last call, because Redis
// did not accept what was counted before.
func (r *Recorder) Dropped() (n int64) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, q := range r.queues {
		q.mu.Lock()
		n, q.dropped = n+q.dropped, 0
		q.mu.Unlock()
	}
	return n
}

// collect moves all counts to the entries. The caller holds the lock.
func (q *queue) collect() {
	for _, name := range slices.Sorted(maps.Keys(q.types)) {
		if c := q.types[name]; c.attempts > 0 {
			q.freeze(name, c)
		} else {
			delete(q.types, name) // not used since the last flush
		}
	}
	for name, c := range q.errors {
		q.freezeError(name, c)
	}
	clear(q.errors)
}

// split turns the entries into calls. The caller holds the lock.
func (q *queue) split(name string) {
	slices.SortStableFunc(q.entries, func(a, b Entry) int { return cmp.Compare(a.Minute, b.Minute) })
	var one *Batch
	var total *Stats // of the queue, in the minute of the last entry
	for i, e := range q.entries {
		hour := e.Minute / 60
		if one == nil || one.Hour != hour || len(one.Entries) >= maxEntries-1 {
			q.rest = append(q.rest, Batch{Queue: name, Hour: hour})
			one, total = &q.rest[len(q.rest)-1], nil
		}
		if total != nil && q.entries[i-1].Minute != e.Minute {
			total = nil
		}
		if e.Stats != nil {
			if total == nil {
				total = &Stats{}
				one.Entries = append(one.Entries, Entry{Minute: e.Minute, Table: QueueTable, Stats: total})
			}
			total.Merge(e.Stats)
		}
		one.Entries = append(one.Entries, e)
	}
	q.entries = nil
}
