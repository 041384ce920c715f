package poll

import (
	"time"

	"github.com/asynq-go/asynq"
)

// memory is the part of earlier snapshots that verdicts depend on. It takes about 1.3 kB for each
// of up to maxTracked queues. Verdicts on other queues depend on the latest snapshot only.
type memory struct {
	queues  map[string]*queueMemory
	servers map[string]serverMemory
	crashed []crash

	entriesAt time.Time // the last time with scheduler entries
	entries   int       // their number
	evicted   int64     // by Redis before the first snapshot
	evictions bool      // evicted is known
}

func newMemory() *memory {
	return &memory{queues: make(map[string]*queueMemory), servers: make(map[string]serverMemory)}
}

// queueMemory is the memory of one queue.
type queueMemory struct {
	pausedSince    time.Time // zero: not paused
	saturatedSince time.Time // zero: not saturated
	points         []point   // oldest first
}

// point is a queue in one snapshot.
type point struct {
	at                                   time.Time
	pending, processed, failed, archived int
}

// pointGap is the minimum time between two points. There are about 25 points within the trend.
const pointGap = 12 * time.Second

// serverMemory is the memory of a listed server.
type serverMemory struct {
	name   string // host and PID
	active bool
	tasks  int
	held   time.Duration // the age of its longest-running task
}

// crash is a server that disappeared without stopping.
type crash struct {
	name  string
	at    time.Time
	tasks int
}

// maxCrashes bounds the number of remembered crashes.
const maxCrashes = 100

// note records a snapshot. A failed snapshot has no information.
func (m *memory) note(s *Snapshot) {
	if s.Err != nil {
		clear(m.servers) // servers missing afterwards may have crashed, or Redis may have lost their records
		return
	}
	if s.Problems.Queues == nil {
		m.noteQueues(s)
	}
	if s.Problems.Servers == nil {
		m.noteServers(s)
	}
	if s.Problems.Entries == nil && len(s.Entries) > 0 {
		m.entriesAt, m.entries = s.At, len(s.Entries)
	}
	if s.Problems.Redis == nil && (!m.evictions || s.Redis.EvictedKeys < m.evicted) {
		m.evictions, m.evicted = true, s.Redis.EvictedKeys
	}
}

func (m *memory) noteQueues(s *Snapshot) {
	served := serving(s)
	there := make(map[string]bool, len(s.Queues))
	for _, q := range s.Queues {
		there[q.Name] = true
		if q.Info == nil {
			continue
		}
		known := m.queues[q.Name]
		if known == nil {
			if len(m.queues) >= maxTracked {
				continue
			}
			known = new(queueMemory)
			m.queues[q.Name] = known
		}
		since(&known.pausedSince, q.Info.Paused, s.At)
		if s.Problems.Servers == nil {
			since(&known.saturatedSince, served[q.Name].saturated(), s.At)
		}
		known.add(s.At, q.Info)
	}
	for name := range m.queues {
		if !there[name] {
			delete(m.queues, name)
		}
	}
}

// since updates the time at which a condition became true.
func since(at *time.Time, so bool, now time.Time) {
	switch {
	case !so:
		*at = time.Time{}
	case at.IsZero():
		*at = now
	}
}

func (q *queueMemory) add(at time.Time, i *asynq.QueueInfo) {
	if n := len(q.points); n > 0 {
		last := q.points[n-1]
		if i.ProcessedTotal < last.processed || i.FailedTotal < last.failed || at.Before(last.at) {
			q.points = q.points[:0] // the queue was recreated, or the clock was set back
		} else if at.Sub(last.at) < pointGap {
			return
		}
	}
	old := 0
	for old < len(q.points) && at.Sub(q.points[old].at) > trend+pointGap {
		old++
	}
	q.points = append(q.points[:0], q.points[old:]...)
	q.points = append(q.points, point{at: at, pending: i.Pending, processed: i.ProcessedTotal, failed: i.FailedTotal, archived: i.Archived})
}

// before returns the oldest point within the trend. ok is false if it is less than least ago.
func (q *queueMemory) before(now time.Time, least time.Duration) (p point, ok bool) {
	if q == nil {
		return point{}, false
	}
	for _, p := range q.points {
		if age := now.Sub(p.at); age <= trend+pointGap {
			return p, age >= least
		}
	}
	return point{}, false
}

func (m *memory) noteServers(s *Snapshot) {
	listed := make(map[string]serverMemory, len(s.Servers))
	for _, server := range s.Servers {
		now := serverMemory{name: serverName(server), active: server.Status == activeStatus, tasks: len(server.ActiveWorkers)}
		for _, w := range server.ActiveWorkers {
			now.held = max(now.held, s.At.Sub(w.Started))
		}
		listed[server.ID] = now
	}
	for id, was := range m.servers {
		// A server that shuts down requeues its tasks and is removed at once. A crashed server
		// stays listed for ten seconds with its tasks. A task that has run for less than crashHeld
		// may have finished in time.
		if _, ok := listed[id]; !ok && was.active && was.held >= crashHeld {
			m.crashed = append(m.crashed, crash{name: was.name, at: s.At, tasks: was.tasks})
		}
	}
	m.servers = listed
	kept := m.crashed[:0]
	for _, c := range m.crashed {
		if s.At.Sub(c.at) < crashReported {
			kept = append(kept, c)
		}
	}
	m.crashed = kept[max(0, len(kept)-maxCrashes):]
}
