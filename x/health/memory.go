package health

import (
	"strconv"
	"time"

	"github.com/asynq-go/asynq"
)

const (
	// maxTracked bounds the queues that a Monitor remembers. It takes about 1.3 kB for each. Rules
	// on other queues depend on the latest input only.
	maxTracked = 1000

	// pointGap is the minimum time between two points. There are about 25 within a trend.
	pointGap = 12 * time.Second

	// crashHeld is how long a server processed a task for its disappearance to be a crash: a
	// shorter task may have finished in time.
	crashHeld = 8 * time.Second

	// maxCrashes bounds the remembered crashes.
	maxCrashes = 100
)

// memory is the part of earlier inputs that rules depend on.
type memory struct {
	began   time.Time // the first check
	queues  map[string]*queueMemory
	servers map[string]serverMemory
	crashed []crash

	entriesAt time.Time        // the last time with scheduler entries
	entries   int              // their number
	evicted   map[string]int64 // by a Redis server before the first check
	acked     map[string]time.Time
}

func newMemory() *memory {
	return &memory{
		queues: make(map[string]*queueMemory), servers: make(map[string]serverMemory),
		evicted: make(map[string]int64), acked: make(map[string]time.Time),
	}
}

// queueMemory is the memory of one queue.
type queueMemory struct {
	pausedSince    time.Time // zero: not paused
	saturatedSince time.Time // zero: not saturated
	failingSince   time.Time // zero: not failing
	points         []point   // oldest first
}

// point is a queue in one input.
type point struct {
	at                                   time.Time
	pending, processed, failed, archived int
}

// serverMemory is the memory of a listed server.
type serverMemory struct {
	name   string // host and PID
	queues map[string]int
	active bool
	tasks  int
	held   time.Duration // the age of its longest-running task
}

// crash is a server that disappeared without stopping.
type crash struct {
	name   string
	queues map[string]int
	at     time.Time
	tasks  int
}

// note records an input. A failed one has no information.
func (m *memory) note(in *Input, s Settings) {
	if m.began.IsZero() {
		m.began = in.At
	}
	if in.Err != nil {
		clear(m.servers) // servers missing afterwards may have crashed, or Redis may have lost their records
		return
	}
	if in.Problems.Queues == nil {
		m.noteQueues(in, s)
	}
	if in.Problems.Servers == nil {
		m.noteServers(in, s)
	}
	if in.Problems.Entries == nil && len(in.Entries) > 0 {
		m.entriesAt, m.entries = in.At, len(in.Entries)
	}
	if in.Problems.Redis != nil {
		return
	}
	for _, n := range in.Nodes {
		if before, ok := m.evicted[n.Addr]; n.Err == nil && (!ok || n.EvictedKeys < before) {
			m.evicted[n.Addr] = n.EvictedKeys
		}
	}
}

func (m *memory) noteQueues(in *Input, s Settings) {
	served := serving(in)
	there := make(map[string]bool, len(in.Queues))
	for _, q := range in.Queues {
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
		since(&known.pausedSince, q.Info.Paused, in.At)
		if in.Problems.Servers == nil {
			since(&known.saturatedSince, served[q.Name].saturated(), in.At)
		}
		known.add(in.At, q.Info, s.Trend)
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

func (q *queueMemory) add(at time.Time, i *asynq.QueueInfo, trend time.Duration) {
	if n := len(q.points); n > 0 {
		last := q.points[n-1]
		if i.ProcessedTotal < last.processed || i.FailedTotal < last.failed || at.Before(last.at) {
			q.points, q.failingSince = q.points[:0], time.Time{} // the queue was recreated, or the clock was set back
		} else if at.Sub(last.at) < gap(trend) {
			return
		}
	}
	old := 0
	for old < len(q.points) && at.Sub(q.points[old].at) > trend+gap(trend) {
		old++
	}
	q.points = append(q.points[:0], q.points[old:]...)
	q.points = append(q.points, point{at: at, pending: i.Pending, processed: i.ProcessedTotal, failed: i.FailedTotal, archived: i.Archived})
}

// gap returns the minimum time between two points of a trend.
func gap(trend time.Duration) time.Duration { return max(pointGap, trend/25) }

// before returns the oldest point within the trend. ok is false if it is less than least ago.
func (q *queueMemory) before(now time.Time, trend, least time.Duration) (p point, ok bool) {
	if q == nil {
		return point{}, false
	}
	for _, p := range q.points {
		if age := now.Sub(p.at); age <= trend+gap(trend) {
			return p, age >= least
		}
	}
	return point{}, false
}

// grows reports whether each third of the trend ended with more pending tasks than the one before.
func (q *queueMemory) grows(pending int) bool {
	n := len(q.points)
	a, b, c := q.points[0].pending, q.points[n/3].pending, q.points[2*n/3].pending
	return a < b && b < c && c < pending
}

func (m *memory) noteServers(in *Input, s Settings) {
	listed := make(map[string]serverMemory, len(in.Servers))
	for _, server := range in.Servers {
		now := serverMemory{name: serverName(server), queues: server.Queues, active: server.Status == activeStatus, tasks: len(server.ActiveWorkers)}
		for _, w := range server.ActiveWorkers {
			now.held = max(now.held, in.At.Sub(w.Started))
		}
		listed[server.ID] = now
	}
	for id, was := range m.servers {
		// A server that shuts down requeues its tasks and is removed at once. A crashed server
		// stays listed for ten seconds with its tasks.
		if _, ok := listed[id]; !ok && was.active && was.held >= crashHeld {
			m.crashed = append(m.crashed, crash{name: was.name, queues: was.queues, at: in.At, tasks: was.tasks})
		}
	}
	m.servers = listed
	kept := m.crashed[:0]
	for _, c := range m.crashed {
		if in.At.Sub(c.at) < s.CrashReported {
			kept = append(kept, c)
		}
	}
	m.crashed = kept[max(0, len(kept)-maxCrashes):]
}

// serverName returns the display name of a server or polling worker.
func serverName(s *asynq.ServerInfo) string {
	if s.Worker != "" {
		return s.Worker
	}
	return s.Host + ":" + strconv.Itoa(s.PID)
}
