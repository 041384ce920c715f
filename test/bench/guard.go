package main

import (
	"context"
	"errors"
	"fmt"
	"io"
)

const (
	guardTasks  = 15_000
	guardRatio  = 3
	leastRounds = 3
	mostRounds  = 15
)

// guardSpeed measures one workload and fails if ours is not several times as fast as the reference
// in the same run. The margin is wide and independent of the machine, to detect large regressions
// anywhere. Other load only slows a round down, so only the fastest round of each side counts, and
// more rounds follow as long as the margin is not reached: a round of ours takes a fraction of a
// second, and one pause of the machine takes as long.
func (b *bench) guardSpeed(ctx context.Context, out io.Writer) error {
	w := find(name("process", "concurrency", 100))
	w.sides, w.size, w.share = nil, guardTasks, 0
	b.rounds, b.scale = 1, 1
	var fastest [2]float64 // tasks/s of ours and of the reference
	reached := func() bool { return fastest[0]/fastest[1] >= guardRatio }
	for round := 0; round < leastRounds || round < mostRounds && !reached(); round++ {
		results, err := b.alternate(ctx, []*workload{w})
		if err != nil {
			return err
		}
		for i, res := range results {
			if res.Error != "" {
				return errors.New(res.Error)
			}
			fastest[i] = max(fastest[i], res.Rounds[0].rate())
		}
	}
	ratio := fastest[0] / fastest[1]
	fmt.Fprintf(out, "%s: %.0f tasks/s, the reference %.0f: %.1f times as fast, required %d\n", w.name, fastest[0], fastest[1], ratio, guardRatio)
	if !reached() {
		return fmt.Errorf("%s is only %.1f times as fast as the reference", w.name, ratio)
	}
	return nil
}
