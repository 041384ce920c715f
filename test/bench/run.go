package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
)

// bench is a run: every lane of every workload, on one Redis.
type bench struct {
	*options

	server   *redisServer
	cluster  *redisServer // nil until a workload needs it
	programs string       // directory; empty until a workload needs it
	bullmq   *bullMQ      // nil if skipped
	log      io.Writer
}

// close stops and removes what workloads needed.
func (b *bench) close() {
	b.cluster.stop()
	b.bullmq.remove()
	if b.programs != "" {
		_ = os.RemoveAll(b.programs) // a temporary directory
	}
}

// prepare starts and builds what a workload needs, and returns its Redis.
func (b *bench) prepare(ctx context.Context, w *workload) (*redisServer, error) {
	var err error
	if w.programs && b.programs == "" {
		if b.programs, err = buildPrograms(ctx); err != nil {
			return nil, err
		}
	}
	if !w.cluster {
		return b.server, nil
	}
	if b.cluster == nil {
		b.cluster, err = startRedis(true)
	}
	return b.cluster, err
}

// result holds the rounds of one side.
type result struct {
	Workload string     `json:"workload"`
	Side     string     `json:"side"`
	Rounds   []*figures `json:"rounds"`
	Error    string     `json:"error,omitempty"` // error that ended the rounds
}

// quickBullMQ is the only BullMQ workload of a quick run, because starting node takes longer than
// the work.
var quickBullMQ = name("process", "concurrency", 100)

// all runs all matching workloads.
func (b *bench) all(ctx context.Context) (*report, error) {
	r := &report{Command: b.command, Quick: b.quick, Machine: b.machine(ctx)}
	var groups [][]*workload
	family := ""
	for _, w := range workloads(b.soak > 0) {
		if n := len(groups); w.family != "" && w.family == family {
			groups[n-1] = append(groups[n-1], w)
		} else {
			groups = append(groups, []*workload{w})
		}
		family = w.family
	}
	r.dimensions = dimensions(b.quick)
	for _, d := range r.dimensions {
		groups = append(groups, d.workloads())
	}
	for _, group := range groups {
		group = slices.DeleteFunc(group, func(w *workload) bool { return !b.match.MatchString(w.name) })
		results, err := b.alternate(ctx, group)
		if err != nil {
			return nil, err
		}
		r.Results = append(r.Results, results...)
	}
	if len(r.Results) == 0 {
		return nil, errors.New("-run matches no workload")
	}
	r.Checks = check(r)
	return r, nil
}

// alternate runs the lanes of workloads that are compared with each other alternately, round by
// round, so that other load affects all of them.
func (b *bench) alternate(ctx context.Context, list []*workload) (results []*result, err error) {
	var all []*laneOf
	for _, w := range list {
		server, err := b.prepare(ctx, w)
		if err != nil {
			return nil, err
		}
		for _, side := range w.lanes() {
			if side == sideBullMQ && (b.bullmq == nil || b.quick && w.name != quickBullMQ) {
				continue
			}
			l := &laneOf{workload: w, server: server, result: &result{Workload: w.name, Side: side}}
			all, results = append(all, l), append(results, l.result)
		}
	}
	for round := range b.rounds {
		for _, l := range all {
			if l.Error != "" || round >= l.most() {
				continue
			}
			f, err := b.lane(ctx, l, round)
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if err != nil {
				l.Error = err.Error()
				fmt.Fprintf(b.log, "%s, %s: %v\n", l.Workload, l.Side, err)
				continue
			}
			l.Rounds = append(l.Rounds, f)
			fmt.Fprintf(b.log, "%-34s %-9s %9.0f tasks/s  %.1f s\n", l.Workload, l.Side, f.rate(), f.Seconds)
		}
	}
	return results, nil
}

// laneOf is a side of a workload.
type laneOf struct {
	*workload
	*result

	server *redisServer
}

// most returns the maximum number of rounds.
func (l *laneOf) most() int {
	switch {
	case l.Side == sideBullMQ:
		return bullMQRounds
	case l.rounds > 0:
		return l.rounds
	}
	return math.MaxInt
}

// lane runs a lane once, on an empty Redis.
func (b *bench) lane(ctx context.Context, l *laneOf, round int) (*figures, error) {
	if err := l.server.empty(ctx); err != nil {
		return nil, err
	}
	order := &laneConfig{
		Workload: l.Workload, Side: l.Side, Addr: l.server.addr(), Tasks: l.tasks(l.Side, b.scale), Scale: b.scale, Soak: b.soak,
		Programs: b.programs,
	}
	if l.Side == sideBullMQ {
		return b.bullmq.lane(ctx, order)
	}
	if b.profile != "" {
		order.Profile = filepath.Join(b.profile, fileName(fmt.Sprintf("%s-%s-%d", l.Workload, l.Side, round+1))+".pprof")
	}
	return spawn(ctx, order)
}

// fileName replaces the characters that may be special in names of files.
func fileName(text string) string { return special.ReplaceAllString(text, "_") }

var special = regexp.MustCompile(`[^\w.-]+`)

// rate returns the tasks per second; 0 without tasks.
func (f *figures) rate() float64 {
	if f.Seconds == 0 {
		return 0
	}
	return float64(f.Tasks) / f.Seconds
}

// each returns a figure of every round.
func (res *result) each(figure func(f *figures) float64) []float64 {
	values := make([]float64, len(res.Rounds))
	for i, f := range res.Rounds {
		values[i] = figure(f)
	}
	return values
}

// The figures of a round, per task except for those per second.
func redisMicros(f *figures) float64 { return f.perTask(f.RedisCPU) * 1e6 }
func ownMicros(f *figures) float64   { return f.perTask(f.OwnCPU) * 1e6 }
func mallocs(f *figures) float64     { return f.perTask(f.Mallocs) }
func commands(f *figures) float64    { return f.perTask(f.Commands) }
func trips(f *figures) float64       { return f.perTask(f.RoundTrips) }
func memory(f *figures) float64      { return f.perTask(f.Memory) }

// commandsPerSec is the rate of an idle server; NaN if it was not observed for two heartbeats.
func commandsPerSec(f *figures) float64 {
	if f.Seconds <= 10 {
		return math.NaN()
	}
	return f.Commands / f.Seconds
}

// The figures of a round that only some workloads have.
func p50(f *figures) float64           { return f.Latency.P50 }
func p99(f *figures) float64           { return f.Latency.P99 }
func connections(f *figures) float64   { return f.Idle.Connections }
func goroutines(f *figures) float64    { return f.Idle.Goroutines }
func initMillis(f *figures) float64    { return f.inits().Millis }
func initKilobytes(f *figures) float64 { return f.inits().Bytes / 1000 }

// inits returns the cost of initialization; NaN if it was not measured.
func (f *figures) inits() inits {
	if f.Init == nil {
		return inits{math.NaN(), math.NaN()}
	}
	return *f.Init
}
