package main

import "math"

// target is a required figure, checked in runs that measure it.
type target struct {
	What string   `json:"what"`
	Must string   `json:"must"`
	Seen *float64 `json:"seen"` // nil if not measured
	Low  float64  `json:"low"`  // of the rounds
	High float64  `json:"high"` // of the rounds
	Unit string   `json:"unit"`
	Met  bool     `json:"met"`
}

// goal computes a required figure.
type goal struct {
	what, unit  string
	least, most float64                   // one of them is set
	of          func(v *figureOf) float64 // NaN if not measured
	or          bool                      // an alternative to the goal before: one of the two must be met
}

// must returns the bound as text.
func (g *goal) must() string {
	if g.most > 0 {
		return "≤ " + count(g.most) + g.unit
	}
	return "≥ " + count(g.least) + g.unit
}

func (g *goal) met(seen float64) bool {
	return g.most > 0 && seen <= g.most || g.least > 0 && seen >= g.least
}

// figureOf returns the figures that goals are computed from: medians, or those of one round.
type figureOf struct {
	*report
	round int // negative means medians
}

// figure returns a figure of a workload on a side; NaN if there is none.
func (v *figureOf) figure(workload, side string, figure func(*figures) float64) float64 {
	res := v.of(workload, side)
	switch {
	case res == nil || v.round >= len(res.Rounds):
		return math.NaN()
	case v.round < 0:
		return median(res.each(figure))
	}
	return figure(res.Rounds[v.round])
}

// ours returns a figure of this library.
func (v *figureOf) ours(workload string, figure func(*figures) float64) float64 {
	return v.figure(workload, sideOurs, figure)
}

// versus returns a figure of this library relative to another side.
func (v *figureOf) versus(side, workload string, figure func(*figures) float64) float64 {
	return v.ours(workload, figure) / v.figure(workload, side, figure)
}

// goals returns the design targets, which are ratios within a run where possible.
func goals() []goal {
	rate := (*figures).rate
	process := func(concurrency int) string { return name("process", "concurrency", concurrency) }
	// speed is a rate relative to the reference.
	speed := func(what, workload string, least float64) goal {
		return goal{what: what, unit: " ×", least: least, of: func(v *figureOf) float64 { return v.versus(sideReference, workload, rate) }}
	}
	// within is a limit of a figure of this library.
	within := func(what, unit, workload string, figure func(*figures) float64, most float64) goal {
		return goal{what: what, unit: unit, most: most, of: func(v *figureOf) float64 { return v.ours(workload, figure) }}
	}
	// relative is a limit of a figure relative to another side.
	relative := func(what, side, workload string, figure func(*figures) float64, most float64) goal {
		return goal{what: what, unit: " ×", most: most, of: func(v *figureOf) float64 { return v.versus(side, workload, figure) }}
	}
	// grown is a rate of this library relative to its rate at size 1 of a dimension.
	grown := func(what, dimension string, size int, least float64) goal {
		return goal{what: what, unit: " ×", least: least, of: func(v *figureOf) float64 {
			return v.ours(growthName(dimension, size), rate) / v.ours(growthName(dimension, 1), rate)
		}}
	}
	seconds := func(f *figures) float64 { return 1 / f.rate() }
	floor := relative("or: time per task, concurrency 1, relative to the floor", sideFloor, process(1), seconds, 1.08)
	floor.or = true
	idle, trickling := name("latency", "idle", "lone tasks"), name("latency", "servers", 1)
	list := []goal{
		speed("enqueued/s, 1 goroutine", name("enqueue", "goroutines", 1), 1),
		speed("enqueued/s, 8 goroutines", name("enqueue", "goroutines", 8), 1.5),
		speed("enqueued/s, 64 goroutines", name("enqueue", "goroutines", 64), 2),
		speed("enqueued/s, 8 goroutines, 10 kB", name("enqueue", "payload", "10kB"), 1.2),
		{what: "batch enqueue, 1,000 per call", unit: "/s", least: 200_000, of: func(v *figureOf) float64 {
			return v.ours(name("enqueue", "batch", 1000), rate)
		}},
		speed("processed/s, concurrency 1", process(1), 2),
		floor,
		speed("processed/s, concurrency 10", process(10), 5.5),
		speed("processed/s, concurrency 100", process(100), 11),
		speed("processed/s, concurrency 1,000", process(1000), 13),
		speed("produced and processed concurrently, concurrency 100", name("produce+process", "concurrency", 100), 6),
		speed("processed/s, a result for each task", name("process", "retention", "result"), 7),
		speed("processed/s, every task fails once", name("process", "retry", "0s"), 6),
		speed("processed/s, 1 MB", name("process", "payload", "1MB"), 1.1),
		grown("processed/s, 100 queues, relative to 1 queue", "queues", 100, 0.6),
		grown("processed/s, 50 servers, relative to 1 server", "servers", 50, 1.3),
		within("worker CPU per processed task, concurrency 100", " µs", process(100), ownMicros, 8),
		within("allocations per processed task, concurrency 100", "", process(100), mallocs, 25),
		relative("Redis CPU per processed task, concurrency 100, relative to the floor", sideFloor, process(100), redisMicros, 1.5),
		relative("Redis CPU per task, 1,000 tasks/s", sideReference, trickling, redisMicros, 1.2),
		within("enqueue → handler, 1,000 tasks/s, p50", " ms", trickling, p50, 0.5),
		within("enqueue → handler on an idle server, p50", " ms", idle, p50, 1),
		within("enqueue → handler on an idle server, p99", " ms", idle, p99, 5),
		within("Redis commands/s of an idle server", "", name("idle", "servers", 1), commandsPerSec, 2),
		within("Redis CPU per completion with 10,000 active, random", " µs", name("active", "10000", randomOrder), redisMicros, 30),
	}
	for _, o := range []order{startOrder, reverseOrder} {
		list = append(list, goal{
			what: "Redis CPU per completion with 10,000 active, relative to 10 active, " + string(o), unit: " ×", most: 3,
			of: func(v *figureOf) float64 {
				return v.ours(name("active", "10000", o), redisMicros) / v.ours(name("active", "10", startOrder), redisMicros)
			},
		})
	}
	// share is a rate of this library relative to that of another workload of the same family.
	share := func(what, workload, of string, least float64) goal {
		return goal{what: what, unit: " ×", least: least, of: func(v *figureOf) float64 {
			return v.ours(workload, rate) / v.ours(of, rate)
		}}
	}
	for _, c := range []struct{ what, kind string }{{"processed/s, a backlog", "process"}, {"produced and processed concurrently", "produce+process"}} {
		of := func(what string, n int) string { return name(c.kind, what, n) }
		list = append(list,
			share(c.what+", 10,000 partitions, relative to none", of("partitions", 10_000), of("partitions", 0), 0.6),
			share(c.what+", one partition, relative to a limit of the queue", of("partitions", 1), of("queue limit", 100), 0.95),
		)
	}
	list = append(list, share("processed/s of one partition at its limit, relative to a limit of the queue",
		name("process", "partition limit 10, handler", "5ms"), name("process", "queue limit 10, handler", "5ms"), 0.95))
	const equal = 1.004 // the same, apart from what Redis caches
	return append(list,
		within("1,000 queues on a Cluster: connections of a server per primary", "", clusterQueues, connections, 4),
		within("1,000 queues on a Cluster: goroutines of a server beyond its slots", "", clusterQueues, goroutines, 100),
		within("1,000 queues on a Cluster: enqueue → handler on an idle server, p50", " ms", clusterQueues, p50, 5),
		relative("memory of a pending task", sideReference, memoryPending, memory, equal),
		within("initialization of the imported packages", " ms", startImport, initMillis, 0.3),
		within("`asynq version`", " ms", startVersion, p50, 10),
		within("`asynq stats`", " ms", startStats, p50, 15),
	)
}

// check compares a report with the design targets.
func check(r *report) (list []*target) {
	for _, g := range goals() {
		t := &target{What: g.what, Must: g.must(), Unit: g.unit}
		list = append(list, t)
		seen := g.of(&figureOf{r, -1})
		if math.IsNaN(seen) || math.IsInf(seen, 0) {
			continue
		}
		t.Seen, t.Met = &seen, g.met(seen)
		t.Low, t.High = seen, seen
		for round := 0; ; round++ {
			one := g.of(&figureOf{r, round})
			if math.IsNaN(one) {
				break
			}
			t.Low, t.High = min(t.Low, one), max(t.High, one)
		}
		if before := list[max(len(list)-2, 0)]; g.or {
			t.Met = t.Met || before.Met
			before.Met = t.Met
		}
	}
	return list
}

// checkTable returns the table of the targets that were measured.
func checkTable(list []*target) *table {
	t := &table{texts: 1, header: []string{"", "required", "measured", "min–max", ""}}
	for _, c := range list {
		if c.Seen == nil {
			continue
		}
		verdict := "not met"
		if c.Met {
			verdict = "met"
		}
		t.add(c.What, c.Must, count(*c.Seen)+c.Unit, count(c.Low)+"–"+count(c.High), verdict)
	}
	return t
}
