package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// taskTimeout is how long a lane waits for its tasks before it reports them as lost.
const taskTimeout = 5 * time.Minute

// lane is one run of a workload on one side: the process, the Redis and what was started.
type lane struct {
	ctx context.Context
	laneConfig
	side    side
	cluster bool // the Redis is a Cluster

	trips roundTrips
	admin redis.UniversalClient // round trips are not counted
}

// most returns n, limited to Crowd.
func (l *lane) most(n int) int {
	if l.Crowd > 0 {
		return min(n, l.Crowd)
	}
	return n
}

// workload is a measurement, independent of the library.
type workload struct {
	name     string
	size     int      // tasks in a full run
	least    int      // tasks at any scale
	share    int      // divides the tasks of the reference, which is slower; 0 means 1
	rounds   int      // maximum; 0 means no maximum
	sides    []string // nil means this library and the reference
	cluster  bool     // runs on a Cluster
	programs bool     // starts the programs of buildPrograms
	family   string   // rounds of neighbors with the same family alternate, because they are compared
	run      func(l *lane) (*figures, error)
}

// tasks returns the number of tasks of a side at a scale. A rate does not depend on it, but the
// duration of a run does.
func (w *workload) tasks(side string, scale float64) int {
	share := 1
	switch side {
	case sideReference:
		share = max(w.share, 1)
	case sideBullMQ:
		share = max(w.share, bullMQShare)
	}
	return max(w.least, int(float64(w.size)*scale)/share, 1)
}

// lanes returns the names of the sides to measure, in turn.
func (w *workload) lanes() []string {
	if w.sides != nil {
		return w.sides
	}
	return []string{sideOurs, sideReference}
}

// adminName is the name of connections that do not belong to the library.
const adminName = "bench-admin"

// open prepares the lane. Everything that it starts ends with its process.
func (l *lane) open() {
	l.admin = redis.NewClient(&redis.Options{Addr: l.Addr, ClientName: adminName})
	if l.cluster {
		l.admin = redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{l.Addr}, ClientName: adminName})
	}
}

// connect returns a connection with the defaults of the library that counts round trips.
func (l *lane) connect() redis.UniversalClient {
	conn := l.side.connect(l.Addr, l.cluster)
	conn.AddHook(&l.trips)
	return conn
}

// producer returns the producer of the library.
func (l *lane) producer() producer { return l.side.producer(l.connect()) }

// serve starts a server.
func (l *lane) serve(cfg serverConfig) error {
	if _, ok := l.side.(ours); ok && l.cluster {
		cfg.cluster = l.Addr
		return l.side.serve(nil, cfg)
	}
	return l.side.serve(l.connect(), cfg)
}

// tally is the work of a measurement.
type tally struct {
	tasks    int
	attempts int      // attempts that Redis must count before the costs are read
	queues   []string // queues of the attempts; nil means the default queue
}

// measure returns the figures of do. The clock stops when do returns, and the costs are read when
// the attempts are settled.
func (l *lane) measure(do func() (tally, error)) (*figures, error) {
	m := &meter{conn: l.admin, trips: &l.trips, profile: l.Profile}
	if err := m.start(l.ctx); err != nil {
		return nil, err
	}
	done, err := do()
	if err != nil {
		return nil, err
	}
	m.stop()
	if err := l.settled(done.attempts, done.queues...); err != nil {
		return nil, err
	}
	return m.end(l.ctx, done.tasks)
}

// seed enqueues n tasks before the measurement, always with our library: it is faster, and the keys
// in Redis are the same.
func (l *lane) seed(n int, next func(i int) *job) error {
	conn := ours{}.connect(l.Addr, l.cluster)
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

// settled waits until Redis has counted n attempts in all queues.
func (l *lane) settled(n int, queues ...string) error {
	if n == 0 {
		return nil
	}
	if len(queues) == 0 {
		queues = []string{defaultQueue}
	}
	total := 0
	err := poll(l.ctx, taskTimeout, func() (bool, error) {
		replies, err := l.admin.Pipelined(l.ctx, func(pipe redis.Pipeliner) error {
			for _, queue := range queues {
				pipe.Get(l.ctx, queueKey(queue, "processed"))
			}
			return nil
		})
		if err != nil && !errors.Is(err, redis.Nil) {
			return false, err
		}
		total = 0
		for _, reply := range replies {
			count, _ := reply.(*redis.StringCmd).Int() // 0 if it is missing
			total += count
		}
		return total >= n, nil
	})
	if err != nil {
		return fmt.Errorf("%d of %d tasks are settled: %w", total, n, err)
	}
	return nil
}

// errNoTasks means that tasks were lost or hang.
var errNoTasks = fmt.Errorf("no tasks arrived within %s", taskTimeout)

// countdown closes done after the expected number of hits.
type countdown struct {
	left atomic.Int64
	done chan struct{}
}

func newCountdown(n int) *countdown {
	c := &countdown{done: make(chan struct{})}
	c.left.Store(int64(n))
	return c
}

// hit reports whether the hit was expected; false after the countdown has ended.
func (c *countdown) hit() bool {
	left := c.left.Add(-1)
	if left == 0 {
		close(c.done)
	}
	return left >= 0
}

// wait waits for the last expected hit.
func (c *countdown) wait(ctx context.Context) error {
	late := time.NewTimer(taskTimeout)
	defer late.Stop()
	select {
	case <-c.done:
		return nil
	case <-late.C:
		return fmt.Errorf("%d tasks did not arrive within %s", c.left.Load(), taskTimeout)
	case <-ctx.Done():
		return ctx.Err()
	}
}
