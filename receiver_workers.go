package asynq

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/asynq-go/asynq/internal/loops"
	"github.com/asynq-go/asynq/internal/runner"
	"github.com/asynq-go/asynq/internal/wire"
)

// Limits of the workers that a Receiver tracks.
const (
	maxPollers     = 1000             // names
	maxPolledPairs = 10_000           // pairs of a name and a queue
	maxWorkerName  = 200              // bytes
	pollerTTL      = 30 * time.Second // after the last poll, unless the worker holds a lease
	publishGap     = time.Second      // between two times that new pollers are published
)

// pollers tracks the workers that receive tasks, by name; "" is the Receiver itself.
type pollers struct {
	wake chan struct{} // signaled for new pollers

	mu     sync.Mutex
	byName map[string]*poller
	pairs  int
}

// poller is a worker that receives tasks.
type poller struct {
	started, last time.Time // of the first and the last poll
	waiting       int       // tasks requested by the current polls
	n             int       // tasks requested by the last poll
	queues        map[string]*polledQueue
}

type polledQueue struct {
	polls int // that are waiting
	last  time.Time
}

func newPollers() *pollers {
	return &pollers{wake: make(chan struct{}, 1), byName: make(map[string]*poller)}
}

// begin records the start of a poll. The caller must call end when the poll returns.
func (p *pollers) begin(name string, n int, queues []string) (end func()) {
	now, fresh := time.Now(), false
	p.mu.Lock()
	defer p.mu.Unlock()
	if name = p.trackedName(name); p.byName[name] == nil {
		p.byName[name] = &poller{started: now, queues: make(map[string]*polledQueue, len(queues))}
		fresh = true
	}
	one := p.byName[name]
	one.n, one.last = n, now
	one.waiting += n
	polled := make([]*polledQueue, 0, len(queues))
	for _, name := range queues {
		q := one.queues[name]
		if q == nil {
			if p.pairs >= maxPolledPairs {
				continue
			}
			p.pairs++
			q, fresh = &polledQueue{}, true
			one.queues[name] = q
		}
		q.polls++
		q.last = now
		polled = append(polled, q)
	}
	if fresh {
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		now := time.Now()
		one.waiting -= n
		one.last = now
		for _, q := range polled {
			q.polls--
			q.last = now
		}
	}
}

// trackedName returns the name under which a worker is tracked: its own, or "" if there are too
// many workers. The caller must hold the lock.
func (p *pollers) trackedName(name string) string {
	if name != "" && p.byName[name] == nil && len(p.byName) > maxPollers {
		return ""
	}
	return name
}

// each removes workers that have not polled within pollerTTL and hold no lease, and calls f for the
// others. held are the leases by the name of their worker.
func (p *pollers) each(held map[string][]*wire.WorkerInfo, f func(name string, one *poller, running []*wire.WorkerInfo)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for name, running := range held { // they may have polled another Receiver
		if to := p.trackedName(name); to != name {
			held[to] = append(held[to], running...)
			delete(held, name)
		} else if p.byName[name] == nil {
			p.byName[name] = &poller{started: now, queues: make(map[string]*polledQueue)}
		}
	}
	for name, one := range p.byName {
		running := held[name]
		if len(running) == 0 {
			maps.DeleteFunc(one.queues, func(_ string, q *polledQueue) bool {
				expired := q.polls == 0 && now.Sub(q.last) > pollerTTL
				if expired {
					p.pairs--
				}
				return expired
			})
			if len(one.queues) == 0 {
				delete(p.byName, name)
				continue
			}
		}
		if one.waiting > 0 {
			one.last = now
		}
		f(name, one, running)
	}
}

// presence returns the loops that publish the workers, receive cancellations, and drop the state of
// queues that are not used any more.
func (r *Receiver) presence() []runner.Loop {
	r.published = &loops.Heartbeater{Broker: r.base.broker, Interval: heartbeatInterval, Snapshot: r.describePollers}
	var last time.Time
	publish := func(ctx context.Context) (time.Duration, error) {
		if since := time.Since(last); since < publishGap {
			return publishGap - since, nil
		}
		next, err := r.published.Tick(ctx)
		if err == nil {
			last = time.Now()
		}
		return next, err
	}
	forget := func(context.Context) (time.Duration, error) {
		r.pool.Prune()
		return forgetInterval, nil
	}
	subscriber := &loops.Subscriber{Broker: r.base.broker, Receive: r.pool.Cancel}
	stats := r.base.statsLoops(func() []string { return slices.Collect(maps.Keys(r.configuredQueues())) })
	return append(stats, []runner.Loop{
		{Name: "subscriber", Stage: stagePresence, Tick: subscriber.Tick},
		{Name: "pollers", Stage: stagePresence, Tick: publish, Wake: r.pollers.wake},
		{Name: "unused queues", Stage: stagePresence, Tick: forget},
	}...)
}

// describePollers returns the tracked workers as they are published.
func (r *Receiver) describePollers() []loops.Server {
	held := make(map[string][]*wire.WorkerInfo)
	attempts := r.pool.Running()
	for i, w := range r.base.workerInfos(attempts) {
		name := attempts[i].Lease.(*Lease).Worker()
		held[name] = append(held[name], w)
	}
	var all []loops.Server
	weights, divided := r.configuredQueues(), r.partitionedQueues()
	r.pollers.each(held, func(name string, one *poller, running []*wire.WorkerInfo) {
		info := r.base.info()
		info.StartTime = one.started
		info.Queues = make(map[string]int, len(one.queues))
		for q := range one.queues {
			info.Queues[q] = max(weights[q], 1)
		}
		p := loops.Server{Process: r.base.process, Info: info, Running: running}
		if name != "" {
			info.Host, info.PID = splitWorkerName(name)
			info.ServerID = workerID(name)
			p.Process.ID += ":" + info.ServerID
			p.Poller = &wire.Poller{Name: name, LastPoll: one.last}
		}
		for _, w := range running {
			w.Host, w.PID, w.ServerID = info.Host, info.PID, info.ServerID
			if info.Queues[w.Queue] == 0 {
				info.Queues[w.Queue] = max(weights[w.Queue], 1)
			}
		}
		info.Concurrency = max(len(running)+one.waiting, one.n)
		p.Parts = r.base.publishedPartitions(info.Queues, divided)
		all = append(all, p)
	})
	return all
}

// workerID returns the ID under which a worker is listed. It is the same on all Receivers.
func workerID(name string) string {
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte("asynq worker "+name)).String()
}

// splitWorkerName splits a name such as "web-1:4711" into a host and a process ID, which is 0 if
// the name has none.
func splitWorkerName(name string) (host string, pid int) {
	if i := strings.LastIndexByte(name, ':'); i > 0 {
		if pid, err := strconv.Atoi(name[i+1:]); err == nil && pid > 0 && pid <= math.MaxInt32 {
			return name[:i], pid
		}
	}
	return name, 0
}

// validateWorkerName returns an error if the name is not accepted by ReceiveAs.
func validateWorkerName(name string) error {
	switch {
	case strings.TrimSpace(name) == "":
		return fmt.Errorf("asynq: worker name %q is blank", name)
	case len(name) > maxWorkerName:
		return fmt.Errorf("asynq: worker name has %d bytes: the maximum is %d", len(name), maxWorkerName)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("asynq: worker name %q contains characters that are not printable", name)
	}
	return nil
}
