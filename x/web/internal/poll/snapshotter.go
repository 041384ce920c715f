package poll

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/health"
)

const (
	// pollTimeout bounds a poll. Parts without a response by then fail.
	pollTimeout = 5 * time.Second

	// memoryAge is the maximum age of a queue's memory usage before it is sampled again.
	// memoryBatch is the maximum number of queues sampled by one poll: each is a call to Redis that
	// reads up to a hundred tasks.
	memoryAge   = 30 * time.Second
	memoryBatch = 50

	// unhandledAge is the time between two checks for types that no server handles. unhandledBatch
	// is the maximum number of queues in a check, each with three calls to Redis.
	unhandledAge   = 30 * time.Second
	unhandledBatch = 20
)

// snapshotter makes snapshots, one after the other. It is not safe for concurrent use.
type snapshotter struct {
	source  Source
	now     func() time.Time
	log     *slog.Logger
	history *history

	busy   struct{ queues, memory, servers, entries, unhandled, nodes, mutes, symptoms, unmute atomic.Bool }
	last   *Snapshot
	meters map[string]*meter
	memory map[string]memorySample
	failed map[string]bool // parts that failed in the last poll

	monitor    *health.Monitor
	settings   health.Settings
	symptoms   Symptoms
	symptomsAt time.Time // of the poll that read them
	mutes      []*asynq.Mute
	unmute     func(ctx context.Context, ids ...string) (int, error) // nil: read-only

	unhandled   map[string][]asynq.UnhandledType // by queue
	unhandledAt time.Time                        // of the last check
}

type memorySample struct {
	bytes int64
	at    time.Time // time of the request
}

func newSnapshotter(cfg Config, h *history) *snapshotter {
	monitor, err := health.NewMonitor(cfg.Health)
	if err != nil {
		panic("poll: " + err.Error())
	}
	return &snapshotter{
		source: cfg.Source, now: cfg.Clock, log: cfg.Logger, history: h, last: &Snapshot{},
		meters: make(map[string]*meter), memory: make(map[string]memorySample), failed: make(map[string]bool),
		monitor: monitor, settings: cfg.Health, unmute: cfg.Unmute,
	}
}

// answers are the results of the parts of a poll.
type answers struct {
	queues  []asynq.QueueInfoResult
	memory  map[string]int64
	servers []*asynq.ServerInfo
	entries []*asynq.SchedulerEntry
	nodes   []NodeInfo
	mutes   []*asynq.Mute

	symptoms *Symptoms // nil: not read in this poll

	unhandled    []asynq.UnhandledType
	unhandledOf  []string // the queues that were checked
	unhandledErr error

	queuesErr, memoryErr, serversErr, entriesErr, nodesErr, mutesErr, symptomsErr error
}

// snapshot requests all parts concurrently and makes a snapshot of the results. It ends with ctx,
// and after pollTimeout at the latest. A call that is still running then is not repeated before it
// ends.
func (l *snapshotter) snapshot(ctx context.Context) *Snapshot {
	began := l.now()
	a := l.ask(ctx, began)
	s := &Snapshot{
		Seq: l.last.Seq + 1, At: began,
		Queues: l.last.Queues, Servers: l.last.Servers, Entries: l.last.Entries, Redis: l.last.Redis,
	}
	s.Problems = Problems{Queues: a.queuesErr, Servers: a.serversErr, Entries: a.entriesErr}
	if a.serversErr == nil {
		s.Servers = a.servers
	}
	if a.entriesErr == nil {
		s.Entries = a.entries
	}
	if a.nodesErr == nil {
		var all Redis
		if all, a.nodesErr = joinNodes(a.nodes); a.nodesErr == nil {
			s.Redis = all
		}
	}
	s.Problems.Redis = a.nodesErr
	if a.queuesErr != nil && a.serversErr != nil && a.entriesErr != nil && a.nodesErr != nil {
		s.Err = a.queuesErr
		s.DataAt = l.last.DataAt
	} else {
		s.DataAt = began
	}
	l.takeUnhandled(began, a)
	if a.queuesErr == nil {
		l.takeMemory(began, a)
		s.Queues = l.takeQueues(a.queues)
	}
	s.Total = total(s)
	l.record(s, a)
	s.Health = l.check(ctx, s, a)
	l.logChanges(ctx, s, a)
	s.Took = l.now().Sub(began)
	l.last = s
	return s
}

func (l *snapshotter) ask(ctx context.Context, now time.Time) *answers {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	a := new(answers)
	var wg sync.WaitGroup
	wg.Go(func() {
		if a.queues, a.queuesErr = ask(ctx, &l.busy.queues, l.source.Queues); a.queuesErr != nil {
			return
		}
		stale := l.staleMemory(a.queues)
		if len(stale) == 0 {
			return
		}
		a.memory, a.memoryErr = ask(ctx, &l.busy.memory, func(ctx context.Context) (map[string]int64, error) {
			return l.source.Memory(ctx, stale)
		})
	})
	wg.Go(func() { a.mutes, a.mutesErr = ask(ctx, &l.busy.mutes, l.source.Mutes) })
	wg.Go(func() { l.askSymptoms(ctx, a, now) })
	wg.Go(func() { a.servers, a.serversErr = ask(ctx, &l.busy.servers, l.source.Servers) })
	wg.Go(func() { a.entries, a.entriesErr = ask(ctx, &l.busy.entries, l.source.Entries) })
	if a.unhandledOf = l.toCheck(); len(a.unhandledOf) > 0 {
		wg.Go(func() {
			a.unhandled, a.unhandledErr = ask(ctx, &l.busy.unhandled, func(ctx context.Context) ([]asynq.UnhandledType, error) {
				return l.source.Unhandled(ctx, a.unhandledOf)
			})
		})
	}
	wg.Go(func() { a.nodes, a.nodesErr = ask(ctx, &l.busy.nodes, l.source.Nodes) })
	wg.Wait()
	return a
}

// ask makes a call and waits for it until ctx ends, even if the command itself keeps waiting for an
// unresponsive Redis. A call is not made while the previous one is running. A panic in it becomes
// an error.
func ask[T any](ctx context.Context, busy *atomic.Bool, f func(context.Context) (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	var none T
	if !busy.CompareAndSwap(false, true) {
		return none, fmt.Errorf("no answer from redis yet: %w", context.DeadlineExceeded)
	}
	done := make(chan result, 1)
	go func() {
		var r result
		defer func() {
			if v := recover(); v != nil {
				r.err = fmt.Errorf("poll: panic: %v\n%s", v, debug.Stack())
			}
			busy.Store(false)
			done <- r
		}()
		r.value, r.err = f(ctx)
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		return none, fmt.Errorf("no answer from redis: %w", ctx.Err())
	}
}

// staleMemory returns the queues whose memory is sampled in this poll, never sampled ones first.
func (l *snapshotter) staleMemory(queues []asynq.QueueInfoResult) []string {
	now := l.now()
	var never, old []string
	for _, q := range queues {
		m, ok := l.memory[q.Queue]
		switch {
		case q.Err != nil:
		case !ok:
			never = append(never, q.Queue)
		case now.Sub(m.at) >= memoryAge:
			old = append(old, q.Queue)
		}
	}
	stale := slices.Concat(never, old)
	return stale[:min(len(stale), memoryBatch)]
}

// toCheck returns the queues that this poll checks for types that no server handles: those with
// waiting tasks whose servers all publish what they handle. Queues with such types come first.
func (l *snapshotter) toCheck() []string {
	if l.now().Sub(l.unhandledAt) < unhandledAge {
		return nil
	}
	unknown, served := make(map[string]bool), make(map[string]bool)
	for _, server := range l.last.Servers {
		for queue := range server.Queues {
			served[queue] = true
			unknown[queue] = unknown[queue] || server.Patterns == nil
		}
	}
	var known, others []string
	for _, q := range l.last.Queues {
		switch {
		case !waits(q.Info), !served[q.Name], unknown[q.Name]:
		case len(l.unhandled[q.Name]) > 0:
			known = append(known, q.Name)
		default:
			others = append(others, q.Name)
		}
	}
	all := slices.Concat(known, others)
	return all[:min(len(all), unhandledBatch)]
}

// waits reports whether a queue has tasks that run soon. info may be nil.
func waits(info *asynq.QueueInfo) bool {
	return info != nil && (info.Pending+info.Retry > 0 || info.ScheduledOverdue > 0)
}

// takeUnhandled stores the result of a check. After an error, the last one remains.
func (l *snapshotter) takeUnhandled(at time.Time, a *answers) {
	if len(a.unhandledOf) == 0 || a.unhandledErr != nil {
		return
	}
	l.unhandledAt = at
	l.unhandled = make(map[string][]asynq.UnhandledType)
	for _, t := range a.unhandled {
		l.unhandled[t.Queue] = append(l.unhandled[t.Queue], t)
	}
}

// takeMemory stores samples and removes those of deleted queues.
func (l *snapshotter) takeMemory(at time.Time, a *answers) {
	for name, bytes := range a.memory {
		l.memory[name] = memorySample{bytes: bytes, at: at}
	}
	if len(l.memory) > len(a.queues) {
		forget(l.memory, a.queues)
	}
}

// forget removes the entries of queues that do not exist.
func forget[T any](known map[string]T, queues []asynq.QueueInfoResult) {
	there := make(map[string]bool, len(queues))
	for _, q := range queues {
		there[q.Queue] = true
	}
	for name := range known {
		if !there[name] {
			delete(known, name)
		}
	}
}

func (l *snapshotter) takeQueues(results []asynq.QueueInfoResult) []Queue {
	queues := make([]Queue, len(results))
	for n, r := range results {
		q := Queue{Name: r.Queue, Info: r.Info, Err: r.Err}
		if waits(r.Info) {
			q.Unhandled = l.unhandled[r.Queue]
		}
		if r.Err == nil {
			m := l.meters[r.Queue]
			if m == nil {
				m = new(meter)
				l.meters[r.Queue] = m
			}
			q.Rate = m.note(r.Info)
			info := *r.Info
			info.MemoryUsage = l.memory[r.Queue].bytes
			q.Info = &info
		} else if old, ok := l.last.Queue(r.Queue); ok {
			q.Last = cmp.Or(old.Info, old.Last)
		}
		queues[n] = q
	}
	if len(l.meters) > len(results) {
		forget(l.meters, results)
	}
	return queues
}

func total(s *Snapshot) Total {
	t := Total{Queues: len(s.Queues)}
	for _, q := range s.Queues {
		if q.Info == nil {
			t.Broken++
			continue
		}
		i := q.Info
		if i.Paused {
			t.Paused++
		}
		t.Pending += i.Pending
		t.Active += i.Active
		t.Scheduled += i.Scheduled
		t.Retry += i.Retry
		t.Archived += i.Archived
		t.Completed += i.Completed
		t.Aggregating += i.Aggregating
		t.Processed += i.Processed
		t.Failed += i.Failed
		t.ProcessedTotal += i.ProcessedTotal
		t.FailedTotal += i.FailedTotal
		if !i.Paused {
			t.Latency = max(t.Latency, i.Latency)
		}
		t.Memory += i.MemoryUsage
		t.Rate = t.Rate.plus(q.Rate)
	}
	for _, server := range s.Servers {
		t.Busy += len(server.ActiveWorkers)
		if server.Status == activeStatus {
			t.Servers++
			t.Concurrency += server.Concurrency
		}
	}
	return t
}

// activeStatus is the status of a server that fetches tasks.
const activeStatus = "active"

// record adds the poll to the history. Failed parts are gaps.
func (l *snapshotter) record(s *Snapshot, a *answers) {
	if s.Err != nil {
		l.history.note(s.At, nil)
		return
	}
	values := make([]float64, allMetrics)
	for m := range values {
		values[m] = math.NaN()
	}
	add := &sample{total: values}
	if a.queuesErr == nil {
		add.names, add.queues = make([]string, 0, len(s.Queues)), make(map[string][]float64, len(s.Queues))
		var rate Rate
		for _, q := range s.Queues {
			add.names = append(add.names, q.Name)
			if q.Info == nil {
				continue
			}
			raw := l.meters[q.Name].raw
			rate = rate.plus(raw)
			if raw.Known {
				add.queues[q.Name] = queueValues(make([]float64, queueMetrics), raw, q.Info)
			}
		}
		t := s.Total
		queueValues(values, rate, &asynq.QueueInfo{
			Pending: t.Pending, Active: t.Active, Retry: t.Retry, Scheduled: t.Scheduled, Archived: t.Archived, Latency: t.Latency,
		})
		if !rate.Known && len(s.Queues) > 0 {
			values[Processed], values[Failed] = math.NaN(), math.NaN()
		}
	}
	if a.serversErr == nil {
		values[Servers], values[Busy] = float64(s.Total.Servers), float64(s.Total.Busy)
	}
	if a.nodesErr == nil {
		values[RedisMemory], values[RedisOps] = float64(s.Redis.Memory), s.Redis.OpsPerSecond
	}
	l.history.note(s.At, add)
}

func queueValues(values []float64, r Rate, i *asynq.QueueInfo) []float64 {
	values[Processed], values[Failed] = r.Processed, r.Failed
	values[Pending], values[Active], values[Retry] = float64(i.Pending), float64(i.Active), float64(i.Retry)
	values[Scheduled], values[Archived] = float64(i.Scheduled), float64(i.Archived)
	values[Latency] = i.Latency.Seconds()
	return values
}

// logChanges logs when a part starts to fail, and when it recovers.
func (l *snapshotter) logChanges(ctx context.Context, s *Snapshot, a *answers) {
	if ctx.Err() != nil {
		return // not an error of Redis
	}
	parts := []struct {
		name string
		err  error
	}{{"all", s.Err}, {"queues", a.queuesErr}, {"servers", a.serversErr}, {"schedulers", a.entriesErr}, {"redis", a.nodesErr}, {"memory", a.memoryErr}}
	for _, p := range parts {
		was := l.failed[p.name]
		switch {
		case p.name != "all" && (s.Err != nil || l.failed["all"]):
			// Logged once for all of them.
		case p.err != nil && !was:
			l.log.Warn("web: Redis is unreachable, showing the last known state", "part", p.name, "error", p.err)
		case p.err == nil && was:
			l.log.Info("web: Redis is reachable again", "part", p.name)
		}
	}
	for _, p := range parts {
		l.failed[p.name] = p.err != nil
	}
}
