package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/doctor"
)

// run is a running scenario with its own Redis and its findings.
type run struct {
	ctx       context.Context
	name      string
	scale     float64
	soak      time.Duration
	redis     *redisServer
	conn      asynq.RedisClientOpt
	client    *asynq.Client
	inspector *asynq.Inspector
	meter     *meter
	log       *logbook
	progress  io.Writer

	figures []figure
	failed  []error
}

// scenario is a kind of load. It verifies that no task is lost or run twice.
type scenario struct {
	name string
	play func(r *run) error
}

var scenarios = []scenario{
	{"pending", pending}, {"active", active}, {"queues", queues}, {"servers", servers}, {"payloads", payloads}, {"grow", grow}, {"soak", soak},
}

// options are the options of all scenarios.
type options struct {
	scale    float64
	soak     time.Duration
	progress io.Writer
}

// perform runs a scenario on its own Redis. Findings are errors in addition to the figures.
func perform(ctx context.Context, s scenario, o options) ([]figure, error) {
	server, err := startRedis(ctx)
	if err != nil {
		return nil, err
	}
	defer server.stop()
	r := &run{ctx: ctx, name: s.name, scale: o.scale, soak: o.soak, redis: server, log: new(logbook), progress: o.progress}
	r.conn = asynq.RedisClientOpt{Addr: server.addr}
	r.client, r.inspector = asynq.NewClient(r.conn), asynq.NewInspector(r.conn)
	settledHeap() // excludes memory of the previous scenario
	r.meter = startMeter(ctx, server.addr)
	start := time.Now()
	err = s.play(r)
	r.note("whole scenario", time.Since(start).Seconds(), "s")
	err = errors.Join(err, r.meter.close(), r.client.Close(), r.inspector.Close(), r.log.err())
	if err = errors.Join(append(r.failed, err)...); err != nil {
		err = fmt.Errorf("%s: %w", s.name, err)
	}
	return r.figures, err
}

// n returns a number at the scale of the run, with a minimum.
func (r *run) n(full, least int) int { return max(int(float64(full)*r.scale), least) }

// duration returns a duration at the scale of the run.
func (r *run) duration(full, least time.Duration) time.Duration {
	return max(time.Duration(float64(full)*min(r.scale, 1)), least)
}

// small reports whether the scenario is small enough for checks whose cost grows with the number of
// tasks.
func (r *run) small() bool { return r.scale <= 0.05 }

func (r *run) note(measure string, value float64, unit string, remark ...any) {
	f := figure{r.name, measure, value, unit, fmt.Sprint(remark...)}
	r.figures = append(r.figures, f)
	fmt.Fprintf(r.progress, "%s: %s: %s %s %s\n", f.scenario, f.measure, number(f.value), f.unit, f.remark)
}

// bear records the effects on other clients and this process since the last call.
func (r *run) bear(phase string) {
	ping, heap, goroutines := r.meter.lap()
	longest, name := r.redis.slowest(r.ctx)
	r.note(phase+": longest PING of another client", float64(ping.Microseconds())/1000, "ms")
	r.note(phase+": longest command in Redis", float64(longest.Microseconds())/1000, "ms", name)
	r.note(phase+": heap at most", float64(heap)/1e6, "MB")
	r.note(phase+": goroutines at most", float64(goroutines), "")
}

// memory records the memory of Redis.
func (r *run) memory(phase string) {
	used, err := r.redis.info(r.ctx, "memory", "used_memory")
	r.check(err == nil, "%v", err)
	r.note(phase+": memory of Redis", used/1e6, "MB")
}

// check records a finding.
func (r *run) check(holds bool, format string, args ...any) {
	if !holds {
		r.failed = append(r.failed, fmt.Errorf(format, args...))
	}
}

// server starts a server that logs to the logbook of the run.
func (r *run) server(cfg asynq.Config, handler asynq.HandlerFunc) (*asynq.Server, error) {
	cfg.Logger, cfg.LogLevel = asynq.NewSlogLogger(slog.New(r.log)), asynq.WarnLevel
	s := asynq.NewServer(r.conn, cfg)
	err := s.Start(handler)
	return s, err
}

// shutdown stops servers concurrently and records the duration.
func (r *run) shutdown(servers ...*asynq.Server) {
	start := time.Now()
	var over sync.WaitGroup
	for _, s := range servers {
		over.Go(s.Shutdown)
	}
	over.Wait()
	r.note(fmt.Sprintf("Shutdown of %d servers", len(servers)), float64(time.Since(start).Microseconds())/1000, "ms")
}

// task returns a task with a number and a payload size.
func task(number, size int, opts ...asynq.Option) *asynq.Task {
	payload := make([]byte, max(size, 8))
	binary.BigEndian.PutUint64(payload, uint64(number))
	return asynq.NewTask("load", payload, append([]asynq.Option{asynq.MaxRetry(3)}, opts...)...)
}

func numberOf(t *asynq.Task) int { return int(binary.BigEndian.Uint64(t.Payload())) }

// batch is the number of tasks per call of a producer.
const batch = 1000

// produce enqueues the tasks from first up to, but excluding, last, in order.
func (r *run) produce(first, last int, of func(i int) *asynq.Task) error {
	for first < last && r.ctx.Err() == nil {
		tasks := []*asynq.Task{}
		for i := first; i < min(first+batch, last); i++ {
			tasks = append(tasks, of(i))
		}
		for _, result := range r.client.BatchEnqueueContext(r.ctx, tasks) {
			if result.Err != nil {
				return result.Err
			}
		}
		first += len(tasks)
	}
	return r.ctx.Err()
}

// tally counts the runs of tasks by number.
type tally struct {
	runs  []atomic.Int32
	total atomic.Int64
	marks []mark // sorted by count
}

// mark records when this number of tasks had run.
type mark struct {
	count int64
	at    time.Time
	hit   chan struct{}
}

func newTally(n int, marks ...int) *tally {
	t := &tally{runs: make([]atomic.Int32, n)}
	for _, m := range append(marks, n) {
		t.marks = append(t.marks, mark{count: int64(m), hit: make(chan struct{})})
	}
	return t
}

// add counts a run and returns the total.
func (t *tally) add(number int) int64 {
	t.runs[number].Add(1)
	n := t.total.Add(1)
	for i := range t.marks {
		if m := &t.marks[i]; m.count == n {
			m.at = time.Now()
			close(m.hit)
		}
	}
	return n
}

// wait waits for a mark; the last mark is all tasks.
func (t *tally) wait(ctx context.Context, i int) (time.Time, error) {
	select {
	case <-t.marks[i].hit:
		return t.marks[i].at, nil
	case <-ctx.Done():
		return time.Time{}, fmt.Errorf("%d of %d tasks have run: %w", t.total.Load(), len(t.runs), context.Cause(ctx))
	}
}

func (t *tally) all(ctx context.Context) (time.Time, error) { return t.wait(ctx, len(t.marks)-1) }

// exactlyOnce checks that each task ran once.
func (r *run) exactlyOnce(t *tally) {
	missing, twice := 0, 0
	for i := range t.runs {
		switch t.runs[i].Load() {
		case 0:
			missing++
		case 1:
		default:
			twice++
		}
	}
	r.check(missing == 0 && twice == 0, "%d tasks have not run, %d more than once", missing, twice)
}

// settled waits until no tasks of a queue are left to run, and checks its statistics: the number of
// attempts, none of which failed.
func (r *run) settled(queue string, processed int) {
	var info *asynq.QueueInfo
	err := poll(r.ctx, time.Minute, func() (bool, error) {
		var err error
		info, err = r.inspector.GetQueueInfo(queue)
		return err == nil && info.Pending+info.Active+info.Scheduled+info.Retry == 0, err
	})
	r.check(err == nil, "queue %s: %v; %+v", queue, err, info)
	if err == nil {
		r.check(info.ProcessedTotal == processed && info.FailedTotal == 0 && info.Archived == 0,
			"queue %s: %d processed, want %d; %d failed, %d archived", queue, info.ProcessedTotal, processed, info.FailedTotal, info.Archived)
	}
}

// sound checks that a diagnosis has no findings, unless that takes too long.
func (r *run) sound() {
	if !r.small() {
		return
	}
	for finding, err := range doctor.Diagnose(r.ctx, r.conn, doctor.Options{}) {
		r.check(false, "diagnosis: %v %v", finding, err)
	}
}

// logbook keeps the warnings of servers, which a run without faults must not cause.
type logbook struct {
	mu    sync.Mutex
	count int
	first []string
}

// Enabled accepts warnings and errors.
func (*logbook) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// Handle keeps the first messages.
func (l *logbook) Handle(_ context.Context, record slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count++; len(l.first) < 5 {
		line := record.Message
		record.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
		l.first = append(l.first, line)
	}
	return nil
}

// WithAttrs returns the logbook: common attributes are ignored.
func (l *logbook) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup returns the logbook.
func (l *logbook) WithGroup(string) slog.Handler { return l }

func (l *logbook) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count == 0 {
		return nil
	}
	return fmt.Errorf("%d warnings of servers, the first: %q", l.count, l.first)
}
