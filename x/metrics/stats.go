package metrics

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/asynq-go/asynq"
)

var (
	statsAttempts = queueDesc("stats_attempts_total", "Attempts since the exporter started, from the statistics in Redis.", "type", "outcome")
	statsDuration = queueDesc("stats_duration_seconds", "Duration of attempts, from the statistics in Redis.", "type")
	statsWaiting  = queueDesc("stats_waiting_seconds", "Time of tasks in pending until they were fetched, a sample, from the statistics in Redis.", "type")
	statsErrors   = queueDesc("stats_errors_total", "Failed attempts by kind of error since the exporter started, from the statistics in Redis.", "kind")
)

const (
	// maxKindLabel bounds the label of a kind of errors, in bytes.
	maxKindLabel = 120
	// statsKept is how long an idle type or kind keeps its series.
	statsKept = 24 * time.Hour
	// statsAhead is by how much the clock of Redis may be ahead of that of this process.
	statsAhead = 5 * time.Minute
)

// statsReader turns the statistics in Redis, which expire, into counters. They begin at 0 with the
// first scrape: a restart of the exporter must not count the attempts of earlier hours again.
type statsReader struct {
	types, kinds int // limits of the series

	mu       sync.Mutex
	base     time.Time // start of the hour from which attempts are read; zero before the first scrape
	attempts *counters[*attemptSums]
	errors   *counters[*errorSum]
}

func newStatsReader(types, kinds int) *statsReader {
	return &statsReader{
		types: types, kinds: kinds,
		attempts: newCounters(types, func() *attemptSums { return &attemptSums{} }),
		errors:   newCounters(kinds, func() *errorSum { return new(errorSum) }),
	}
}

// collect reads the statistics and sends the counters.
func (r *statsReader) collect(ctx context.Context, i *asynq.Inspector, ch chan<- prometheus.Metric) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	hour := now.UTC().Truncate(time.Hour).Add(-time.Hour) // servers may send late what they have counted
	first := r.base.IsZero()
	if first {
		r.base = hour
	}
	read := func(from, to time.Time) (attempts map[sourceName]*attemptSums, errors map[sourceName]*errorSum, err error) {
		if attempts, err = r.readAttempts(ctx, i, from, to); err == nil {
			errors, err = r.readErrors(ctx, i, from, to)
		}
		return attempts, errors, err
	}
	attempts, errors, err := read(r.base, now.Add(statsAhead))
	if err != nil {
		if first {
			r.base = time.Time{}
		}
		return err
	}
	r.attempts.advance(attempts, now, first)
	r.errors.advance(errors, now, first)
	if r.base.Before(hour) { // if that fails, the next scrape reads the longer time again
		if attempts, errors, err := read(r.base, hour); err == nil {
			r.attempts.leave(attempts)
			r.errors.leave(errors)
			r.base = hour
		}
	}
	r.send(ch)
	return nil
}

func (r *statsReader) readAttempts(ctx context.Context, i *asynq.Inspector, from, to time.Time) (map[sourceName]*attemptSums, error) {
	if r.types <= 0 {
		return nil, nil
	}
	all, err := i.TypeStats(ctx, "", from, to)
	if err != nil {
		return nil, err
	}
	found := make(map[sourceName]*attemptSums, len(all))
	for rank, s := range all {
		sums := newAttemptSums(&s.AttemptStats)
		sums.rank = rank
		found[sourceName{s.Queue, s.Type}] = sums
	}
	return found, nil
}

func (r *statsReader) readErrors(ctx context.Context, i *asynq.Inspector, from, to time.Time) (map[sourceName]*errorSum, error) {
	if r.kinds <= 0 {
		return nil, nil
	}
	all, err := i.ErrorStats(ctx, "", from, to)
	if err != nil {
		return nil, err
	}
	found := make(map[sourceName]*errorSum)
	for rank, s := range all {
		name := sourceName{s.Queue, kindLabel(s.Kind)}
		if found[name] == nil {
			found[name] = &errorSum{rank: rank}
		}
		found[name].n += s.Count // of all types
	}
	return found, nil
}

// send sends the counters.
func (r *statsReader) send(ch chan<- prometheus.Metric) {
	for name, s := range r.attempts.series {
		queue, typename := label(name.queue), statsLabel(name.name)
		for outcome, n := range s.outcomes {
			if n > 0 {
				ch <- prometheus.MustNewConstMetric(statsAttempts, prometheus.CounterValue, float64(n), queue, typename, outcomes[outcome])
			}
		}
		ch <- s.duration.metric(statsDuration, queue, typename)
		ch <- s.waiting.metric(statsWaiting, queue, typename)
	}
	for name, n := range r.errors.series {
		ch <- prometheus.MustNewConstMetric(statsErrors, prometheus.CounterValue, float64(n.n), label(name.queue), statsLabel(name.name))
	}
}

// statsLabel returns the label of a type or kind; that of all others is empty.
func statsLabel(name string) string {
	if name == "" {
		return other
	}
	return label(name)
}

// outcomes are the values of the label outcome, in the order of attemptSums.outcomes.
var outcomes = [...]string{
	string(asynq.OutcomeSucceeded), string(asynq.OutcomeRetried), string(asynq.OutcomeDeferred), string(asynq.OutcomeArchived),
	string(asynq.OutcomeRevoked), string(asynq.OutcomeExpired), string(asynq.OutcomeRequeued), string(asynq.OutcomeLeaseLost), "crashed",
}

// attemptSums are the attempts of a type.
type attemptSums struct {
	rank              int // in the order of TypeStats
	outcomes          [len(outcomes)]int64
	duration, waiting histogramSums
}

func newAttemptSums(s *asynq.AttemptStats) *attemptSums {
	return &attemptSums{
		outcomes: [len(outcomes)]int64{
			s.Succeeded, s.Retried, s.Deferred, s.Archived, s.Revoked, s.Expired, s.Requeued, s.LeaseLost, s.Crashed,
		},
		duration: newHistogramSums(s.Duration), waiting: newHistogramSums(s.Wait),
	}
}

func (a *attemptSums) order() int { return a.rank }

func (a *attemptSums) total() (n int64) {
	for _, o := range a.outcomes {
		n += o
	}
	return n
}

func (a *attemptSums) add(b *attemptSums, sign int64) {
	for n := range a.outcomes {
		a.outcomes[n] += sign * b.outcomes[n]
	}
	a.duration.add(&b.duration, sign)
	a.waiting.add(&b.waiting, sign)
}

// errorSum is the number of errors of a kind.
type errorSum struct {
	rank int // in the order of ErrorStats
	n    int64
}

func (e *errorSum) order() int                  { return e.rank }
func (e *errorSum) total() int64                { return e.n }
func (e *errorSum) add(b *errorSum, sign int64) { e.n += sign * b.n }

// kindLabel returns the name of the series of a kind, which is bounded.
func kindLabel(kind string) string {
	if len(kind) <= maxKindLabel {
		return kind
	}
	return strings.ToValidUTF8(kind[:maxKindLabel], "") + "…"
}
