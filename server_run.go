package asynq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/asynq-go/asynq/internal/flow"
	"github.com/asynq-go/asynq/internal/inspect"
	"github.com/asynq-go/asynq/internal/loops"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/runner"
	"github.com/asynq-go/asynq/internal/wire"
	"github.com/asynq-go/asynq/internal/worker"
)

// The stages in which the loops of a server are stopped.
const (
	stageIntake   = iota // loops that bring new work
	stageWork            // loops that active tasks need
	stagePresence        // loops that publish the server's state
)

// The intervals of loops that cannot be configured.
const (
	heartbeatInterval = 5 * time.Second
	recoverInterval   = 10 * time.Second
	jitter            = 0.2 // share of an interval; spreads the servers of a fleet
)

// assemble creates the workers and the table of all loops of the server. Some loops run once per
// lane.
func (srv *Server) assemble() (*worker.Pool, *runner.Runner) {
	forwarders := make(map[string]*loops.Forwarder)
	workers := srv.workerConfig(srv.prepare, func(queue string, delay time.Duration) { forwarders[queue].Expect(delay) })
	workers.Grace, workers.InlineFlush, workers.UnhandledFor = srv.cfg.StuckGracePeriod, true, srv.cfg.UnhandledFor
	pool := worker.NewPool(workers)

	var table []runner.Loop
	canceled := false // a lane receives cancellations
	for _, lane := range lanes(srv.broker, slices.Sorted(maps.Keys(srv.cfg.Queues))) {
		waiter := srv.broker.NewWaiter(lane, srv.process.ID)
		if announced, ok := waiter.(*rdb.AnnouncedWaiter); ok {
			if !canceled {
				announced.Cancel, canceled = srv.receive(pool), true
			}
			markers := &loops.Subscriber{Broker: announced, Receive: announced.Announce}
			table = append(table, runner.Loop{Name: "subscriber", Stage: stagePresence, Tick: markers.Tick})
		}
		fetcher := pool.AddLane(lane, waiter)
		forwarder, maintenance := srv.maintenance(lane, srv.limits)
		for _, queue := range lane {
			forwarders[queue] = forwarder
		}
		table = append(append(table, maintenance...), fetcherLoops(fetcher)...)
		table = append(table, runner.Loop{Name: "stuck handlers", Stage: stageWork, Tick: fetcher.WatchStuck})
		if queues := srv.groupQueues(lane); len(queues) > 0 {
			aggregator := loops.NewAggregator(srv.broker, queues, srv.log)
			aggregator.Archived = srv.archived.recovered()
			table = append(table,
				runner.Loop{Name: "aggregator", Stage: stageIntake, Tick: aggregator.Tick},
				runner.Loop{Name: "aggregation sets", Stage: stageIntake, Tick: aggregator.Maintain, Jitter: jitter},
			)
		}
	}
	if !canceled {
		subscriber := &loops.Subscriber{Broker: srv.broker, Receive: srv.receive(pool)}
		table = append(table, runner.Loop{Name: "subscriber", Stage: stagePresence, Tick: subscriber.Tick})
	}
	table = append(table, srv.presence(pool))
	table = append(table, srv.statsLoops(func() []string { return slices.Collect(maps.Keys(srv.cfg.Queues)) })...)
	if srv.cfg.HealthCheckFunc != nil {
		health := &loops.Health{Ping: srv.broker.Ping, Report: srv.cfg.HealthCheckFunc, Interval: srv.cfg.HealthCheckInterval}
		table = append(table, runner.Loop{Name: "health check", Stage: stageIntake, Tick: health.Tick})
	}
	return pool, runner.New(srv.log, table...)
}

// lanes groups queues into lanes. It waits at most a second for the primaries of a Cluster.
func lanes(broker *rdb.Broker, queues []string) [][]string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	found := make(chan [][]string, 1)
	go func() { found <- broker.PrimaryLanes(ctx, queues) }()
	select {
	case lanes := <-found:
		return lanes
	case <-ctx.Done():
		return broker.Lanes(queues)
	}
}

// workerConfig returns what the workers of a Server and a Receiver have in common, with the
// callbacks of the user.
func (srv *Server) workerConfig(prepare func(a *worker.Attempt), delayed func(queue string, delay time.Duration)) worker.Config {
	return worker.Config{
		Broker:        srv.broker,
		Log:           srv.log,
		Concurrency:   srv.cfg.Concurrency,
		Queues:        srv.cfg.Queues,
		Strict:        srv.cfg.StrictPriority,
		MaxActive:     srv.limits,
		Partitions:    srv.parts,
		Lease:         srv.cfg.LeaseDuration,
		CheckInterval: srv.cfg.TaskCheckInterval,
		AttemptLog:    srv.cfg.AttemptLog,
		TokenPrefix:   strings.ReplaceAll(srv.process.ID, "-", "")[:16] + "-", // unique to this process
		Callbacks: worker.Callbacks{
			BaseContext: srv.cfg.BaseContext,
			Prepare:     prepare,
			Handle:      srv.handle,
			OnError:     srv.onError(),
			IsFailure:   func(err error) bool { return srv.cfg.IsFailure(attemptError(err)) },
			RetryDelay:  srv.retryDelay,
			Holder:      srv.holder(),
			Delayed:     delayed,
			MemberEnded: srv.memberEnded,
			Archived:    srv.archived.callback(),
			Count:       srv.count(),
			Observer:    srv.observer(),
		},
	}
}

// fetcherLoops returns the loops of a fetcher.
func fetcherLoops(fetcher *worker.Fetcher) []runner.Loop {
	table := []runner.Loop{
		{Name: "waiter", Stage: stageIntake, Tick: fetcher.Wait, Wake: fetcher.WaitWake()},
		{Name: "leases", Stage: stageWork, Tick: fetcher.ExtendLeases},
		{Name: "expired leases", Stage: stageWork, Tick: fetcher.WatchLeases},
	}
	for _, roundTrip := range fetcher.RoundTrips() {
		table = append(table, runner.Loop{Name: "fetcher", Stage: stageWork, Tick: roundTrip.Tick, Wake: roundTrip.Wake()})
	}
	return table
}

// maintenance returns the loops that maintain the queues of a lane: they forward due tasks, recover
// expired leases and delete completed tasks. limits are those of queueLimits.
func (srv *Server) maintenance(lane []string, limits map[string]int) (*loops.Forwarder, []runner.Loop) {
	forwarder := loops.NewForwarder(srv.broker, lane, srv.cfg.DelayedTaskCheckInterval, srv.log)
	forwarder.InOrder = make(map[string]bool)
	for _, queue := range lane {
		forwarder.InOrder[queue] = limits[queue] == rdb.InOrder
	}
	recoverer := &loops.Recoverer{
		Broker:     srv.broker,
		Queues:     lane,
		Interval:   min(recoverInterval, srv.cfg.LeaseDuration), // short leases ask for quick recovery
		Log:        srv.log,
		Expired:    ErrLeaseExpired,
		IsFailure:  srv.countsAsFailure,
		AttemptLog: srv.cfg.AttemptLog,
		Recovered:  srv.reportRecovered,
		Archived:   srv.archived.recovered(),
	}
	janitor := &loops.Janitor{
		Broker: srv.broker, Queues: lane, Interval: srv.cfg.JanitorInterval, BatchSize: srv.cfg.JanitorBatchSize,
	}
	flows := flow.NewLoop(&flow.Engine{Broker: srv.broker, Tasks: inspect.New(srv.broker)}, lane)
	for _, queue := range lane {
		srv.flows.Store(queue, flows)
	}
	return forwarder, []runner.Loop{
		{Name: "flows", Stage: stageWork, Tick: startAfter(3*stagger, flows.Tick), Wake: flows.Wake()},
		{Name: "forwarder", Stage: stageIntake, Tick: forwarder.Tick, Wake: forwarder.Wake()},
		{Name: "recoverer", Stage: stageIntake, Tick: startAfter(stagger, recoverer.Tick), Jitter: jitter},
		{Name: "janitor", Stage: stageIntake, Tick: startAfter(2*stagger, janitor.Tick), Jitter: jitter},
	}
}

// memberEnded advances the flow of a part soon.
func (srv *Server) memberEnded(queue, part string) {
	if flows, ok := srv.flows.Load(queue); ok {
		flows.(*flow.Loop).Ended(queue, part)
	}
}

// stagger is the time between the first ticks of maintenance loops. If they began at the same
// moment, each would open a connection.
const stagger = 50 * time.Millisecond

// startAfter returns a tick that calls tick from the second time on, after a delay.
func startAfter(delay time.Duration, tick func(context.Context) (time.Duration, error)) func(context.Context) (time.Duration, error) {
	started := false
	return func(ctx context.Context) (time.Duration, error) {
		if !started {
			started = true
			return delay, nil
		}
		return tick(ctx)
	}
}

// info returns the description of the server that the heartbeat publishes.
func (srv *Server) info() *wire.ServerInfo {
	return &wire.ServerInfo{
		Host:           srv.process.Host,
		PID:            srv.process.PID,
		ServerID:       srv.process.ID,
		Concurrency:    srv.cfg.Concurrency,
		Queues:         srv.cfg.Queues,
		StrictPriority: srv.cfg.StrictPriority,
		Status:         srv.life.State().String(),
		StartTime:      srv.started,
	}
}

// patterns returns the encoded patterns of the types that the server handles; nil if unknown.
func (srv *Server) patterns() (encoded []byte) {
	if h, ok := srv.handler.(interface{ Patterns() []string }); ok {
		callSafely(srv.log, "Patterns", func() {
			if patterns := h.Patterns(); patterns != nil {
				if text, ok := wire.EncodePatterns(patterns); ok {
					encoded = text
				}
			}
		})
	}
	return encoded
}

// workerInfos describes attempts as they are published.
func (srv *Server) workerInfos(attempts []*worker.Attempt) []*wire.WorkerInfo {
	infos := make([]*wire.WorkerInfo, len(attempts))
	for i, a := range attempts {
		infos[i] = &wire.WorkerInfo{
			Host:      srv.process.Host,
			PID:       srv.process.PID,
			ServerID:  srv.process.ID,
			TaskID:    a.Message.ID,
			TaskType:  a.Message.Type,
			Payload:   a.Message.Payload,
			Queue:     a.Queue,
			StartTime: a.Started,
			Deadline:  a.Deadline,
		}
	}
	return infos
}

// handle calls the user's handler.
func (srv *Server) handle(ctx context.Context, a *worker.Attempt) error {
	return handlerError(srv.handler.ProcessTask(ctx, a.Value.(*Task)))
}

// prepare creates the Task of an attempt.
func (srv *Server) prepare(a *worker.Attempt) {
	received := &struct {
		Task
		result ResultWriter
	}{
		Task:   Task{typename: a.Message.Type, payload: a.Message.Payload, headers: wire.UserHeaders(a.Message.Headers)},
		result: ResultWriter{attempt: a},
	}
	received.Task.result = &received.result
	a.Value = &received.Task
}

// onError returns a function that calls the ErrorHandler; nil if there is none.
func (srv *Server) onError() func(ctx context.Context, a *worker.Attempt, err error) {
	if srv.cfg.ErrorHandler == nil {
		return nil
	}
	return func(ctx context.Context, a *worker.Attempt, err error) {
		srv.cfg.ErrorHandler.HandleError(ctx, a.Value.(*Task), attemptError(err))
	}
}

// holder returns a function that names the worker of an attempt in the log of its task.
func (srv *Server) holder() func(a *worker.Attempt) string {
	process := fmt.Sprintf("%s:%d", srv.process.Host, srv.process.PID)
	return func(a *worker.Attempt) string {
		if l, ok := a.Lease.(*Lease); ok && l.Worker() != "" {
			return l.Worker()
		}
		return process
	}
}

func (srv *Server) retryDelay(a *worker.Attempt, err error) time.Duration {
	return srv.cfg.RetryDelayFunc(a.Retried, attemptError(err), a.Value.(*Task))
}

// countsAsFailure calls IsFailure for a task whose server crashed. If IsFailure panics, the error
// counts.
func (srv *Server) countsAsFailure(err error) bool {
	counts := true
	callSafely(srv.log, "IsFailure", func() { counts = srv.cfg.IsFailure(err) })
	return counts
}

// reportRecovered counts a task whose server crashed, and calls the Observer and the ErrorHandler.
func (srv *Server) reportRecovered(queue string, msg *wire.TaskMessage) {
	srv.countCrashed(queue, msg)
	if o := srv.cfg.Observer; o != nil && o.TaskRecovered != nil {
		task := ObservedTask{ID: msg.ID, Queue: queue, Type: msg.Type, Retried: msg.Retried}
		callSafely(srv.log, "Observer.TaskRecovered", func() { o.TaskRecovered(task) }, "task", msg.ID)
	}
	if srv.cfg.ErrorHandler == nil {
		return
	}
	callSafely(srv.log, "ErrorHandler", func() {
		task := &Task{typename: msg.Type, payload: msg.Payload, headers: wire.UserHeaders(msg.Headers)}
		ctx := worker.ContextFor(srv.cfg.BaseContext(), queue, msg)
		srv.cfg.ErrorHandler.HandleError(ctx, task, ErrLeaseExpired)
	}, "task", msg.ID)
}

// callSafely runs a callback and logs a panic.
func callSafely(log *slog.Logger, callback string, f func(), args ...any) {
	var panicked *PanicError
	if errors.As(attemptError(worker.SafeCall(f)), &panicked) {
		log.Error("callback panicked", append(args, "callback", callback, "error", panicked, "stack", string(panicked.Stack))...)
	}
}

// groupQueues returns the queues of a lane whose groups this server aggregates.
func (srv *Server) groupQueues(lane []string) []loops.GroupQueue {
	var queues []loops.GroupQueue
	for _, name := range lane {
		c := srv.cfg.group(name)
		if c.Aggregator == nil {
			continue
		}
		queues = append(queues, loops.GroupQueue{
			Name:    name,
			Rule:    rdb.GroupRule{Grace: c.GracePeriod, MaxDelay: max(c.MaxDelay, 0), MaxSize: max(c.MaxSize, 0)},
			Combine: srv.combine(name, c.Aggregator),
		})
	}
	return queues
}

// combine returns a function that calls the aggregator and prepares the task that it returns.
func (srv *Server) combine(queue string, aggregator GroupAggregator) func(string, []*wire.TaskMessage) (rdb.NewTask, error) {
	return func(group string, messages []*wire.TaskMessage) (rdb.NewTask, error) {
		tasks := make([]*Task, len(messages))
		for i, msg := range messages {
			tasks[i] = &Task{typename: msg.Type, payload: msg.Payload, headers: wire.UserHeaders(msg.Headers)}
		}
		var combined *Task
		if err := <-worker.Isolate(func() { combined = aggregator.Aggregate(group, tasks) }); err != nil {
			return rdb.NewTask{}, attemptError(err)
		}
		if combined == nil {
			return rdb.NewTask{}, errors.New("the GroupAggregator returned nil")
		}
		made, err := newCreation(combined, []Option{Queue(queue)}, srv.broker.Keys, time.Now())
		if err == nil {
			err = made.independent("the task of a GroupAggregator")
		}
		if err != nil {
			return rdb.NewTask{}, err
		}
		return made.order, nil
	}
}
