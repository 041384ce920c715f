package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// patience is how long a lane waits for its tasks: longer means that some are lost.
const patience = 5 * time.Minute

// lane is one side's run of a workload, once: the process, the Redis and what was started.
type lane struct {
	ctx   context.Context
	side  side
	addr  string
	n     int     // tasks
	scale float64 // of everything else that a workload has sizes for
	soak  time.Duration
	crowd int // the most of what is only there beside the tasks: servers, groups, active tasks; 0: no limit

	trips roundTrips
	look  *redis.Client // not counted
}

// most returns n, or what the lane limits crowds to.
func (l *lane) most(n int) int {
	if l.crowd > 0 {
		return min(n, l.crowd)
	}
	return n
}

// workload is something to measure. It knows no library.
type workload struct {
	name   string
	size   int      // tasks of a full run
	least  int      // tasks at any scale
	rounds int      // at most; 0: as many as asked for
	others []string // sides beside the two libraries
	only   string   // the only side that is measured, if any
	run    func(l *lane) (*figures, error)
}

// tasks is how many tasks a run at the given scale has.
func (w *workload) tasks(scale float64) int { return max(w.least, int(float64(w.size)*scale), 1) }

// lanes are the names of the sides that are measured, in turn.
func (w *workload) lanes() []string {
	if w.only != "" {
		return []string{w.only}
	}
	return append([]string{sideOurs, sideReference}, w.others...)
}

// open makes the lane ready. All that a lane starts ends with its process.
func (l *lane) open() { l.look = redis.NewClient(&redis.Options{Addr: l.addr}) }

// connect returns a connection with the library's defaults, on which round trips are counted.
func (l *lane) connect() redis.UniversalClient {
	conn := l.side.connect(l.addr)
	conn.AddHook(&l.trips)
	return conn
}

// producer returns what enqueues through the library.
func (l *lane) producer() producer { return l.side.producer(l.connect()) }

// serve starts a server.
func (l *lane) serve(cfg serverConfig) error { return l.side.serve(l.connect(), cfg) }

// meter returns a meter that has not been started.
func (l *lane) meter() *meter { return &meter{conn: l.look, trips: &l.trips} }

// seed enqueues n tasks that are there before anything is measured. It is always our library that does: it is the faster one,
// and what it leaves in Redis is the same.
func (l *lane) seed(n int, next func(i int) *job) error {
	conn := ours{}.connect(l.addr)
	defer conn.Close()
	p := ours{}.producer(conn)
	const most, mostBytes = 1000, 8 << 20
	var jobs []*job
	size := 0
	for i := range n {
		j := next(i)
		jobs = append(jobs, j)
		size += len(j.payload)
		if len(jobs) < most && size < mostBytes && i < n-1 {
			continue
		}
		if err := p.batch(l.ctx, jobs); err != nil {
			return fmt.Errorf("seeding: %w", err)
		}
		jobs, size = jobs[:0], 0
	}
	return nil
}

// settled waits until Redis has counted n attempts in the queues together.
func (l *lane) settled(n int, queues ...string) error {
	if len(queues) == 0 {
		queues = []string{defaultQueue}
	}
	keys := make([]string, len(queues))
	for i, queue := range queues {
		keys[i] = queueKey(queue, "processed")
	}
	total := 0
	err := poll(l.ctx, patience, func() (bool, error) {
		values, err := l.look.MGet(l.ctx, keys...).Result()
		total = 0
		for _, v := range values {
			if text, ok := v.(string); ok {
				count := 0
				if _, err := fmt.Sscan(text, &count); err != nil {
					return false, err
				}
				total += count
			}
		}
		return total >= n, err
	})
	if err != nil {
		return fmt.Errorf("%d of %d tasks are settled: %w", total, n, err)
	}
	return nil
}

// errNoTasks says that tasks were lost, or hang.
var errNoTasks = fmt.Errorf("no tasks have come in %s", patience)

// countdown closes done when it was hit as often as expected.
type countdown struct {
	left atomic.Int64
	done chan struct{}
}

func newCountdown(n int) *countdown {
	c := &countdown{done: make(chan struct{})}
	c.left.Store(int64(n))
	return c
}

// hit says whether it was expected: false once the count is down.
func (c *countdown) hit() bool {
	left := c.left.Add(-1)
	if left == 0 {
		close(c.done)
	}
	return left >= 0
}

// wait waits for the last expected hit.
func (c *countdown) wait(ctx context.Context) error {
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-c.done:
		return nil
	case <-late.C:
		return fmt.Errorf("%d tasks have not come in %s", c.left.Load(), patience)
	case <-ctx.Done():
		return ctx.Err()
	}
}
