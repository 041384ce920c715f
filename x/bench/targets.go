package main

import "math"

// target is a figure that must be reached, in a run in which it was measured.
type target struct {
	What string   `json:"what"`
	Must string   `json:"must"`
	Seen *float64 `json:"seen"` // nil: not measured
	Unit string   `json:"unit"`
	Met  bool     `json:"met"`
}

// check holds a report against the targets of the design, which are ratios where they can be: seen in one run, on one machine.
func check(r *report) []*target {
	var list []*target
	add := func(what, must, unit string, seen float64, met bool) {
		t := &target{What: what, Must: must, Unit: unit}
		if !math.IsNaN(seen) && !math.IsInf(seen, 0) {
			t.Seen, t.Met = &seen, met
		}
		list = append(list, t)
	}
	least := func(what, unit string, seen, bound float64) {
		add(what, "≥ "+count(bound)+unit, unit, seen, seen >= bound)
	}
	most := func(what, unit string, seen, bound float64) {
		add(what, "≤ "+count(bound)+unit, unit, seen, seen <= bound)
	}
	rate := func(workload, side string) float64 { return r.median(workload, side, (*figures).rate) }
	ratio := func(workload string) float64 { return rate(workload, sideOurs) / rate(workload, sideReference) }
	process := func(concurrency int) string { return name("process", "concurrency", concurrency) }

	least("processed/s, concurrency 100", " ×", ratio(process(100)), 10)
	least("processed/s, concurrency 1,000", " ×", ratio(process(1000)), 10)
	least("processed/s, concurrency 10", " ×", ratio(process(10)), 5)
	least("processed/s, concurrency 1", " ×", ratio(process(1)), 2)
	least("enqueued/s, 64 goroutines", " ×", ratio(name("enqueue", "goroutines", 64)), 2)
	least("produced and consumed at once, concurrency 100", " ×", ratio(name("produce+process", "concurrency", 100)), 6)
	most("worker CPU per processed task, concurrency 100", " µs", r.median(process(100), sideOurs, ownMicros), 8)
	most("allocations per processed task, concurrency 100", "", r.median(process(100), sideOurs, mallocs), 25)
	least("enqueued/s, 1 goroutine", " ×", ratio(name("enqueue", "goroutines", 1)), 1)
	least("batch enqueue, 1,000 a call", "/s", rate(name("enqueue", "batch", 1000), sideOurs), 200_000)
	idle := name("latency", "idle", "lone tasks")
	most("enqueue → handler on an idle server, p50", " ms", r.median(idle, sideOurs, p50), 1)
	most("enqueue → handler on an idle server, p99", " ms", r.median(idle, sideOurs, p99), 5)
	most("Redis CPU per processed task, concurrency 100, to the floor's", " ×",
		r.median(process(100), sideOurs, redisMicros)/r.median(process(100), sideFloor, redisMicros), 1.5)
	quiet := name("idle", "servers", 1)
	if res := r.of(quiet, sideOurs); res != nil && res.Rounds[0].Seconds > 10 { // two heartbeats at least
		most("Redis commands/s of an idle server", "", r.median(quiet, sideOurs, commandsPerSec), 2)
	}
	few := r.median(name("active", "10", startOrder), sideOurs, redisMicros)
	for _, o := range []order{startOrder, reverseOrder} {
		most("Redis CPU of a completion with 10,000 active, to that with 10, "+string(o), " ×",
			r.median(name("active", "10000", o), sideOurs, redisMicros)/few, 3)
	}
	return list
}

// checkTable is the targets that were measured.
func checkTable(list []*target) *table {
	t := &table{texts: 1, header: []string{"", "must be", "seen", ""}}
	for _, c := range list {
		if c.Seen == nil {
			continue
		}
		verdict := "not met"
		if c.Met {
			verdict = "met"
		}
		t.add(c.What, c.Must, count(*c.Seen)+c.Unit, verdict)
	}
	return t
}
