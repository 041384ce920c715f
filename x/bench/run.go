package main

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// bench is a run: every lane of every workload, on one Redis.
type bench struct {
	*options

	server *redisServer
	bullmq *bullMQ // nil: left out
	log    io.Writer
}

// result is what the rounds of one side measured.
type result struct {
	Workload string     `json:"workload"`
	Side     string     `json:"side"`
	Rounds   []*figures `json:"rounds"`
	Error    string     `json:"error,omitempty"` // that ended the rounds
}

// quickBullMQ is the only workload of BullMQ's in a quick run: starting node takes longer than the work.
var quickBullMQ = name("process", "concurrency", 100)

// all runs everything that matches.
func (b *bench) all(ctx context.Context) (*report, error) {
	r := &report{Command: b.command, Quick: b.quick, Machine: b.machine(ctx)}
	list := workloads(b.soak > 0)
	r.dimensions = dimensions(b.quick)
	for _, d := range r.dimensions {
		for _, v := range d.values {
			list = append(list, d.workload(v))
		}
	}
	matched := false
	for _, w := range list {
		if !b.match.MatchString(w.name) {
			continue
		}
		matched = true
		results, err := b.workload(ctx, w)
		if err != nil {
			return nil, err
		}
		r.Results = append(r.Results, results...)
	}
	if !matched {
		return nil, errors.New("-run matches no workload")
	}
	r.Checks = check(r)
	return r, nil
}

// workload runs the lanes of a workload in turn, round by round, so that what the machine does besides befalls them all.
func (b *bench) workload(ctx context.Context, w *workload) ([]*result, error) {
	var results []*result
	for _, side := range w.lanes() {
		if side != sideBullMQ || b.bullmq != nil && !(b.quick && w.name != quickBullMQ) {
			results = append(results, &result{Workload: w.name, Side: side})
		}
	}
	rounds := b.rounds
	if w.rounds > 0 {
		rounds = min(rounds, w.rounds)
	}
	for range rounds {
		for _, res := range results {
			if res.Error != "" {
				continue
			}
			f, err := b.lane(ctx, w, res.Side)
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if err != nil {
				res.Error = err.Error()
				fmt.Fprintf(b.log, "%s, %s: %v\n", w.name, res.Side, err)
				continue
			}
			res.Rounds = append(res.Rounds, f)
			fmt.Fprintf(b.log, "%-34s %-9s %9.0f tasks/s  %.1f s\n", w.name, res.Side, f.rate(), f.Seconds)
		}
	}
	return results, nil
}

// lane runs one side of a workload once, on an empty Redis.
func (b *bench) lane(ctx context.Context, w *workload, side string) (*figures, error) {
	if err := b.server.empty(ctx); err != nil {
		return nil, err
	}
	order := &laneOrder{Workload: w.name, Side: side, Addr: b.server.Addr(), Tasks: w.tasks(b.scale), Scale: b.scale, Soak: b.soak}
	if side == sideBullMQ {
		order.Tasks = max(order.Tasks/bullMQShare, w.least)
		return b.bullmq.lane(ctx, order)
	}
	return spawn(ctx, order)
}

// rate is how many tasks a second there were; 0 where no task was.
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

// Figures of a round, for each.
func redisMicros(f *figures) float64    { return f.perTask(f.RedisCPU) * 1e6 }
func ownMicros(f *figures) float64      { return f.perTask(f.OwnCPU) * 1e6 }
func mallocs(f *figures) float64        { return f.perTask(f.Mallocs) }
func commands(f *figures) float64       { return f.perTask(f.Commands) }
func trips(f *figures) float64          { return f.perTask(f.RoundTrips) }
func commandsPerSec(f *figures) float64 { return f.Commands / f.Seconds }
