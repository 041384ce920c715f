package main

import (
	"fmt"
	"time"
)

// workloads are all that a run measures, in this order, but for the growth.
func workloads(soaks bool) []*workload {
	var list []*workload
	for _, part := range [][]*workload{enqueueing(), processing(), features(), waiting(), holding()} {
		list = append(list, part...)
	}
	if soaks {
		list = append(list, &workload{name: "soak", rounds: 1, run: soak{rate: 1000}.run})
	}
	return list
}

// name joins the parts of a workload's name.
func name(kind, what string, value any) string { return fmt.Sprintf("%s/%s=%v", kind, what, value) }

func enqueueing() (list []*workload) {
	for _, c := range []struct{ goroutines, tasks int }{{1, 10_000}, {8, 40_000}, {64, 100_000}} {
		list = append(list, &workload{
			name: name("enqueue", "goroutines", c.goroutines), size: c.tasks, least: 500,
			others: []string{sideFloor, sideBullMQ}, run: produce{goroutines: c.goroutines, size: 100}.run,
		})
	}
	return append(list, &workload{
		name: name("enqueue", "batch", 1000), size: 100_000, least: 2000,
		others: []string{sideFloor, sideBullMQ}, run: produce{batch: 1000, size: 100}.run,
	})
}

func processing() (list []*workload) {
	for _, c := range []struct{ concurrency, tasks int }{{1, 10_000}, {10, 20_000}, {100, 30_000}, {1000, 30_000}} {
		list = append(list, &workload{
			name: name("process", "concurrency", c.concurrency), size: c.tasks, least: 1000,
			others: []string{sideFloor, sideBullMQ}, run: drain{concurrency: c.concurrency, size: 100}.run,
		})
	}
	return append(list, &workload{
		name: name("produce+process", "concurrency", 100), size: 20_000, least: 1000,
		run: flow{produce: produce{goroutines: 64, size: 100}, concurrency: 100}.run,
	})
}

func features() []*workload {
	base := drain{concurrency: 100, size: 100}
	with := func(change func(w *drain)) func(*lane) (*figures, error) {
		w := base
		change(&w)
		return w.run
	}
	list := []*workload{
		{name: name("process", "handler", "1ms"), size: 20_000, least: 500, run: with(func(w *drain) { w.takes = time.Millisecond })},
		{name: name("process", "handler", "50ms"), size: 2000, least: 200, run: with(func(w *drain) { w.takes = 50 * time.Millisecond })},
		{name: name("process", "queues", "6:3:1"), size: 20_000, least: 500, run: with(func(w *drain) {
			w.queues = map[string]int{"high": 6, "middle": 3, "low": 1}
		})},
		{name: name("process", "retention", "result"), size: 10_000, least: 500, run: with(func(w *drain) {
			w.retention, w.result = time.Hour, payload(100, 0)
		})},
		{name: name("enqueue", "unique", 64), size: 40_000, least: 500, run: produce{goroutines: 64, size: 100, unique: time.Hour}.run},
		{name: name("process", "unique", 100), size: 20_000, least: 500, run: with(func(w *drain) { w.unique = time.Hour })},
	}
	for _, d := range []time.Duration{0, time.Second} {
		list = append(list, &workload{name: name("process", "retry", d), size: 10_000, least: 200, rounds: 3, run: with(func(w *drain) {
			w.failFirst, w.retryDelay = true, d
		})})
	}
	for _, c := range []struct {
		name         string
		bytes, tasks int
	}{{"100B", 100, 20_000}, {"10kB", 10_000, 5000}, {"1MB", 1_000_000, 100}} {
		list = append(list,
			&workload{name: name("enqueue", "payload", c.name), size: c.tasks, least: 20, run: produce{goroutines: 8, size: c.bytes}.run},
			&workload{name: name("process", "payload", c.name), size: c.tasks, least: 20, run: with(func(w *drain) { w.size = c.bytes })})
	}
	return list
}

func waiting() []*workload {
	return []*workload{
		{name: name("latency", "idle", "lone tasks"), size: 100, least: 12, rounds: 3, run: sporadic{servers: 12}.run},
		{name: name("latency", "servers", 1), size: 3000, least: 200, rounds: 3, run: trickle{servers: 1, rate: 1000}.run},
		{name: name("latency", "servers", 50), size: 3000, least: 200, rounds: 3, run: trickle{servers: 50, rate: 1000}.run},
		{name: name("lateness", "scheduled", "within 5s"), size: 500, least: 20, rounds: 2, run: punctual{within: 5 * time.Second}.run},
		{name: name("idle", "servers", 1), rounds: 1, run: rest{lasts: 15 * time.Second}.run},
	}
}

func holding() []*workload {
	list := []*workload{{name: name("active", "10", startOrder), size: 10_000, least: 500, rounds: 3, run: hold{10, startOrder}.run}}
	for _, o := range []order{startOrder, reverseOrder, randomOrder} {
		list = append(list, &workload{name: name("active", "10000", o), size: 1000, least: 100, rounds: 1, run: hold{10_000, o}.run})
	}
	return list
}
