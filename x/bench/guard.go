package main

import (
	"context"
	"errors"
	"fmt"
	"io"
)

const (
	guardTasks  = 15_000
	guardRounds = 5
	guardRatio  = 3
)

// guardSpeed measures one workload and fails if ours is not several times as fast as the reference in this same run. The margin is
// wide, and no time is held against a clock: it is to notice a large loss on any machine.
func (b *bench) guardSpeed(ctx context.Context, out io.Writer) error {
	w := find(name("process", "concurrency", 100))
	w.others, w.size = nil, guardTasks
	b.rounds, b.scale = guardRounds, 1
	results, err := b.workload(ctx, w)
	if err != nil {
		return err
	}
	var rates []float64
	for _, res := range results {
		if res.Error != "" {
			return errors.New(res.Error)
		}
		rates = append(rates, quantile(res.each((*figures).rate), 1)) // other work on the machine only ever slows
	}
	ratio := rates[0] / rates[1]
	fmt.Fprintf(out, "%s: %.0f tasks/s, the reference %.0f: %.1f times as fast, must be %d\n", w.name, rates[0], rates[1], ratio, guardRatio)
	if !(ratio >= guardRatio) {
		return fmt.Errorf("%s is only %.1f times as fast as the reference", w.name, ratio)
	}
	return nil
}
