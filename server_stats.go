package asynq

import (
	"time"

	"github.com/asynq-go/asynq/internal/errorkind"
	"github.com/asynq-go/asynq/internal/loops"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/rollup"
	"github.com/asynq-go/asynq/internal/runner"
	"github.com/asynq-go/asynq/internal/wire"
	"github.com/asynq-go/asynq/internal/worker"
)

// newStatsWriter returns what writes the statistics of a server, nil if they are turned off.
func newStatsWriter(srv *Server) *loops.StatsWriter {
	if srv.cfg.DisableStats {
		return nil
	}
	return &loops.StatsWriter{
		Broker: srv.broker, Recorder: rollup.NewRecorder(errorkind.Of), Sender: srv.process.ID, Log: srv.log,
	}
}

// statsLoops returns the loop that writes the statistics. queues returns the queues whose sizes are
// stored.
func (srv *Server) statsLoops(queues func() []string) []runner.Loop {
	if srv.stats == nil {
		return nil
	}
	srv.stats.Queues = queues
	return []runner.Loop{{Name: "statistics", Stage: stagePresence, Tick: startAfter(3*stagger, srv.stats.Tick), Jitter: jitter}}
}

// countedOutcomes are the outcomes as statistics count them.
var countedOutcomes = [...]rollup.Outcome{
	rdb.Done:     rollup.Succeeded,
	rdb.Complete: rollup.Succeeded,
	rdb.Retry:    rollup.Retried,
	rdb.Defer:    rollup.Deferred,
	rdb.Archive:  rollup.Archived,
	rdb.Requeue:  rollup.Requeued,
	rdb.Revoke:   rollup.Revoked,
	rdb.Expire:   rollup.Expired,
	rdb.Discard:  rollup.Revoked,
	rdb.Lost:     rollup.LeaseLost,
}

// count returns a function that counts attempts that ended, nil if statistics are turned off.
func (srv *Server) count() func(a *worker.Attempt, outcome rdb.Outcome, c worker.Count) {
	if srv.stats == nil {
		return nil
	}
	recorder := srv.stats.Recorder
	return func(a *worker.Attempt, outcome rdb.Outcome, c worker.Count) {
		ended := rollup.Attempt{
			Queue: a.Queue, Type: a.Message.Type, Outcome: countedOutcomes[outcome], Duration: -1, Wait: a.Wait, Failed: c.Failed, Err: c.Err,
		}
		if c.Started {
			ended.Duration = max(c.Now.Sub(a.Started), 0)
		}
		recorder.Record(c.Now, &ended)
	}
}

// countCrashed counts an attempt whose server crashed.
func (srv *Server) countCrashed(queue string, msg *wire.TaskMessage) {
	if srv.stats == nil {
		return
	}
	srv.stats.Recorder.Record(time.Now(), &rollup.Attempt{
		Queue: queue, Type: msg.Type, Outcome: rollup.Crashed, Duration: -1, Wait: -1, Failed: true, Err: ErrLeaseExpired.Error(),
	})
}
