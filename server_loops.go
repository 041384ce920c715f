package asynq

import (
	"context"
	"strings"
	"time"

	"github.com/asynq-go/asynq/internal/loops"
	"github.com/asynq-go/asynq/internal/runner"
	"github.com/asynq-go/asynq/internal/wire"
	"github.com/asynq-go/asynq/internal/worker"
)

// The stages in which a server's loops are stopped.
const (
	stageIntake = iota // what brings new work
	stageWork          // what the handlers and their outcomes need
	stageTell          // what is seen of the server from outside
)

// The pace of loops that no one configures.
const (
	heartbeatInterval = 5 * time.Second
	recoverInterval   = 10 * time.Second
	jitter            = 0.2 // of a rest, so that the servers of a fleet spread out
)

// assemble makes the workers and the table of all loops that run under the server: some once for each lane, the others once.
func (srv *Server) assemble() (*worker.Pool, *runner.Runner) {
	forwarders := make(map[string]*loops.Forwarder)
	pool := worker.NewPool(worker.Config{
		Broker:        srv.broker,
		Log:           srv.log,
		Concurrency:   srv.cfg.Concurrency,
		Queues:        srv.cfg.Queues,
		Strict:        srv.cfg.StrictPriority,
		MaxActive:     srv.cfg.QueueConcurrency,
		Lease:         srv.cfg.LeaseDuration,
		Grace:         srv.cfg.StuckGracePeriod,
		CheckInterval: srv.cfg.TaskCheckInterval,
		TokenPrefix:   srv.tokenPrefix(),
		WorkersLead:   true,
		Callbacks:     srv.callbacks(srv.prepare, func(queue string, delay time.Duration) { forwarders[queue].Expect(delay) }),
	})

	var table []runner.Loop
	for _, lane := range srv.broker.Lanes(srv.queueNames()) {
		pump := pool.AddLane(lane, srv.broker.NewWaiter(lane, srv.process.ID))
		forwarder, upkeep := srv.upkeep(lane, srv.cfg.QueueConcurrency)
		for _, queue := range lane {
			forwarders[queue] = forwarder
		}
		table = append(append(table, upkeep...), pumpLoops(pump)...)
		table = append(table, runner.Loop{Name: "stuck handlers", Stage: stageWork, Tick: pump.WatchStuck})
		if queues := srv.groupQueues(lane); len(queues) > 0 {
			aggregator := loops.NewAggregator(srv.broker, queues, srv.log)
			table = append(table,
				runner.Loop{Name: "aggregator", Stage: stageIntake, Tick: aggregator.Tick},
				runner.Loop{Name: "aggregation sets", Stage: stageIntake, Tick: aggregator.Keep, Jitter: jitter},
			)
		}
	}
	table = append(table, srv.announcer(srv.queueNames()))
	table = append(table, srv.presence(pool, srv.info)...)
	if srv.cfg.HealthCheckFunc != nil {
		health := &loops.Health{Ping: srv.broker.Ping, Report: srv.cfg.HealthCheckFunc, Interval: srv.cfg.HealthCheckInterval}
		table = append(table, runner.Loop{Name: "health check", Stage: stageIntake, Tick: health.Tick})
	}
	return pool, runner.New(runner.Options{Log: srv.log}, table...)
}

// callbacks are what the workers ask and tell of attempts.
func (srv *Server) callbacks(prepare func(a *worker.Attempt), delayed func(queue string, delay time.Duration)) worker.Callbacks {
	return worker.Callbacks{
		BaseContext: srv.cfg.BaseContext,
		Prepare:     prepare,
		Handle:      srv.handle,
		OnError:     srv.onError(),
		IsFailure:   srv.cfg.IsFailure,
		RetryDelay:  srv.retryDelay,
		Delayed:     delayed,
		Observer:    srv.observer(),
	}
}

// tokenPrefix is what the tokens of this server begin with, and nobody else's.
func (srv *Server) tokenPrefix() string {
	return strings.ReplaceAll(srv.process.ID, "-", "")[:16] + "-"
}

// pumpLoops are the loops that a pump needs.
func pumpLoops(pump *worker.Pump) []runner.Loop {
	table := []runner.Loop{
		{Name: "waiter", Stage: stageIntake, Tick: pump.Wait, Wake: pump.WaitWake()},
		{Name: "leases", Stage: stageWork, Tick: pump.ExtendLeases},
		{Name: "ended leases", Stage: stageWork, Tick: pump.WatchLeases},
	}
	for _, trip := range pump.Trips() {
		table = append(table, runner.Loop{Name: "pump", Stage: stageWork, Tick: trip.Turn, Wake: trip.Wake()})
	}
	return table
}

// upkeep is what the tasks of a lane need from time to time, whoever processes them.
func (srv *Server) upkeep(lane []string, concurrency map[string]int) (*loops.Forwarder, []runner.Loop) {
	forwarder := loops.NewForwarder(srv.broker, lane, srv.cfg.DelayedTaskCheckInterval, srv.log)
	forwarder.InOrder = make(map[string]bool)
	for _, queue := range lane {
		forwarder.InOrder[queue] = concurrency[queue] == InOrder
	}
	recoverer := srv.newRecoverer(lane)
	janitor := &loops.Janitor{
		Broker: srv.broker, Queues: lane, Interval: srv.cfg.JanitorInterval, BatchSize: srv.cfg.JanitorBatchSize,
	}
	return forwarder, []runner.Loop{
		{Name: "forwarder", Stage: stageIntake, Tick: forwarder.Tick, Wake: forwarder.Wake()},
		{Name: "recoverer", Stage: stageIntake, Tick: recoverer.Tick},
		{Name: "janitor", Stage: stageIntake, Tick: janitor.Tick, Jitter: jitter},
	}
}

// presence is what others see and ask of the attempts of a pool.
func (srv *Server) presence(pool *worker.Pool, info func() *wire.ServerInfo) []runner.Loop {
	heartbeater := &loops.Heartbeater{
		Broker: srv.broker, Process: srv.process, Interval: heartbeatInterval, Info: info, Running: srv.running(pool),
	}
	subscriber := &loops.Subscriber{Broker: srv.broker, Cancel: pool.Cancel}
	return []runner.Loop{
		{Name: "subscriber", Stage: stageTell, Tick: subscriber.Tick},
		{Name: "heartbeater", Stage: stageTell, Tick: heartbeater.Tick},
	}
}

// announcer puts queues into the set of all queues, once.
func (srv *Server) announcer(queues []string) runner.Loop {
	return runner.Loop{Name: "announcer", Stage: stageIntake, Tick: func(ctx context.Context) (time.Duration, error) {
		if err := srv.broker.AnnounceQueues(ctx, queues); err != nil {
			return 0, err
		}
		return runner.UntilWoken, nil
	}}
}

func (srv *Server) newRecoverer(lane []string) *loops.Recoverer {
	return &loops.Recoverer{
		Broker:   srv.broker,
		Queues:   lane,
		Interval: min(recoverInterval, srv.cfg.LeaseDuration), // a short lease is chosen for a quick recovery
		Log:      srv.log,
		Expired:  ErrLeaseExpired,
		Counts:   srv.countsAsFailure,
		Recovered: func(queue string, msg *wire.TaskMessage) {
			srv.observeRecovered(queue, msg)
			srv.reportRecovered(queue, msg)
		},
	}
}

// info is what the heartbeat tells of the server.
func (srv *Server) info() *wire.ServerInfo {
	return &wire.ServerInfo{
		Host:           srv.process.Host,
		PID:            srv.process.PID,
		ServerID:       srv.process.ID,
		Concurrency:    srv.cfg.Concurrency,
		Queues:         srv.cfg.Queues,
		StrictPriority: srv.cfg.StrictPriority,
		Status:         string(srv.currentState()),
		StartTime:      srv.started,
	}
}

// running is what the heartbeat tells of the tasks in process.
func (srv *Server) running(pool *worker.Pool) func() []*wire.WorkerInfo {
	return func() []*wire.WorkerInfo {
		attempts := pool.Running()
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
}
