package poll

import (
	"context"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/health"
)

// symptomsAge is the time between two reads of Symptoms.
const symptomsAge = 15 * time.Second

// Symptoms is the data of health checks that costs more than the rest of a poll. The error of a
// part is set if it could not be read completely.
type Symptoms struct {
	Processes []asynq.ProcessInfo
	Samples   []health.ErrorSample
	Stats     *health.Stats

	ProcessesErr, SamplesErr, StatsErr error
}

// lostWithin is how long crashed processes are of interest.
const lostWithin = 24 * time.Hour

func (s *source) Mutes(ctx context.Context) ([]*asynq.Mute, error) { return s.inspector.Mutes(ctx) }

func (s *source) Symptoms(ctx context.Context, queues []health.Queue, settings health.Settings, now time.Time) (*Symptoms, error) {
	var found Symptoms
	found.Processes, found.ProcessesErr = s.inspector.Processes(ctx, lostWithin)
	found.Samples, found.SamplesErr = health.SampleErrors(ctx, s.inspector, queues, found.Processes, now)
	found.Stats, found.StatsErr = health.ReadStats(ctx, s.inspector, settings, now)
	return &found, nil
}

// healthQueues returns the queues of a snapshot as health checks take them.
func healthQueues(queues []Queue) []health.Queue {
	all := make([]health.Queue, len(queues))
	for n, q := range queues {
		all[n] = health.Queue{Name: q.Name, Info: q.Info, Err: q.Err, Unhandled: q.Unhandled}
	}
	return all
}

// askSymptoms reads the symptoms if the last ones are old. They belong to the queues of the last
// snapshot.
func (l *snapshotter) askSymptoms(ctx context.Context, a *answers, now time.Time) {
	if now.Sub(l.symptomsAt) < symptomsAge {
		return
	}
	queues := healthQueues(l.last.Queues)
	a.symptoms, a.symptomsErr = ask(ctx, &l.busy.symptoms, func(ctx context.Context) (*Symptoms, error) {
		return l.source.Symptoms(ctx, queues, l.settings, now)
	})
}

// check checks the health of the system.
func (l *snapshotter) check(ctx context.Context, s *Snapshot, a *answers) health.Report {
	if a.symptoms != nil {
		l.symptoms = *a.symptoms
		if len(l.last.Queues) > 0 || len(s.Queues) == 0 { // otherwise they are read again: they lack the failed tasks
			l.symptomsAt = s.At
		}
	}
	in := &health.Input{
		At: s.At, Err: s.Err, Queues: healthQueues(s.Queues), Servers: s.Servers, Entries: s.Entries,
		Processes: l.symptoms.Processes, Samples: l.symptoms.Samples, Stats: l.symptoms.Stats, Mutes: a.mutes,
		Problems: health.Problems{
			Queues: s.Problems.Queues, Servers: s.Problems.Servers, Entries: s.Problems.Entries, Redis: s.Problems.Redis,
			Processes: l.symptoms.ProcessesErr, Samples: l.symptoms.SamplesErr, Stats: l.symptoms.StatsErr, Mutes: a.mutesErr,
		},
	}
	for _, n := range a.nodes {
		node := health.ParseNode(n.Addr, n.Info)
		node.Err = n.Err
		in.Nodes = append(in.Nodes, node)
	}
	if a.mutesErr != nil {
		in.Mutes = l.mutes
	}
	l.mutes = in.Mutes
	report := l.monitor.Check(in)
	if len(report.Ended) > 0 && l.unmute != nil {
		if _, err := ask(ctx, &l.busy.unmute, func(ctx context.Context) (int, error) { return l.unmute(ctx, report.Ended...) }); err != nil {
			l.log.Warn("web: acknowledged causes are gone, but could not be unmuted", "causes", report.Ended, "error", err)
		}
	}
	return *report
}
