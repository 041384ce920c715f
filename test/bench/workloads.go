package main

import (
	"fmt"
	"slices"
	"time"
)

// workloads returns all workloads of a run, in order, except growth.
func workloads(soaks bool) []*workload {
	var list []*workload
	for _, part := range [][]*workload{enqueueing(), processing(), partitioning(), features(), waiting(), holding(), footprints()} {
		list = append(list, part...)
	}
	if soaks {
		list = append(list, &workload{name: "soak", rounds: 1, run: soak{rate: 1000}.run})
	}
	return list
}

// name returns the name of a workload.
func name(kind, what string, value any) string { return fmt.Sprintf("%s/%s=%v", kind, what, value) }

var (
	// floored are the sides of workloads that the scripts of the floor support.
	floored = []string{sideOurs, sideReference, sideFloor}
	// everyone are the sides of workloads that BullMQ supports too.
	everyone = append(slices.Clip(floored), sideBullMQ)
)

func enqueueing() (list []*workload) {
	for _, c := range []struct{ goroutines, tasks int }{{1, 10_000}, {8, 40_000}, {64, 100_000}} {
		list = append(list, &workload{
			name: name("enqueue", "goroutines", c.goroutines), size: c.tasks, least: 500, sides: everyone,
			run: produce{goroutines: c.goroutines, size: 100}.run,
		})
	}
	return append(list, &workload{
		name: name("enqueue", "batch", 1000), size: 100_000, share: 5, least: 2000, sides: everyone,
		run: produce{batch: 1000, size: 100}.run,
	})
}

func processing() (list []*workload) {
	for _, c := range []struct{ concurrency, tasks, share int }{{1, 10_000, 1}, {10, 40_000, 2}, {100, 100_000, 5}, {1000, 100_000, 5}} {
		list = append(list, &workload{
			name: name("process", "concurrency", c.concurrency), size: c.tasks, share: c.share, least: 1000, sides: everyone,
			run: drain{concurrency: c.concurrency, size: 100}.run,
		})
	}
	return append(list, &workload{
		name: name("produce+process", "concurrency", 100), size: 40_000, share: 4, least: 1000,
		run: flow{produce: produce{goroutines: 64, size: 100}, concurrency: 100}.run,
	})
}

// partitioning compares a queue with partitions with one that has none or a limit for all tasks.
func partitioning() (list []*workload) {
	add := func(kind, what string, value any, size int, sides []string, run func(*lane) (*figures, error)) {
		list = append(list, &workload{
			name: name(kind, what, value), family: kind + " partitions", size: size, share: 5, least: 1000, sides: sides, run: run,
		})
	}
	type limits struct {
		what                     string
		number, queueLimit, keys int
		*partitions
	}
	ours := []string{sideOurs}
	all := []limits{
		{"partitions", 0, 0, 0, nil},
		{"queue limit", 100, 100, 0, nil},
		{"partitions", 1, 0, 1, &partitions{concurrency: 100}},
		{"partitions", 10_000, 0, 10_000, &partitions{concurrency: 10}},
	}
	for _, c := range all {
		w := drain{concurrency: 100, size: 100, queueLimit: c.queueLimit, keys: c.keys, partitions: c.partitions}
		add("process", c.what, c.number, 100_000, ours, w.run)
	}
	limited := drain{concurrency: 100, size: 100, queueLimit: 10, takes: 5 * time.Millisecond}
	add("process", "queue limit 10, handler", "5ms", 4000, ours, limited.run)
	limited.queueLimit, limited.keys, limited.partitions = 0, 1, &partitions{concurrency: 10}
	add("process", "partition limit 10, handler", "5ms", 4000, ours, limited.run)
	rate := drain{concurrency: 100, size: 100, keys: 1, partitions: &partitions{rate: 1_000_000}}
	add("process", "rate", 1_000_000, 100_000, []string{sideOurs, sideBullMQ}, rate.run)
	for _, c := range all {
		w := flow{produce{goroutines: 64, size: 100, keys: c.keys}, 100, c.queueLimit, c.partitions}
		add("produce+process", c.what, c.number, 40_000, ours, w.run)
	}
	return list
}

func features() []*workload {
	base := drain{concurrency: 100, size: 100}
	with := func(change func(w *drain)) func(*lane) (*figures, error) {
		w := base
		change(&w)
		return w.run
	}
	list := []*workload{
		{name: name("process", "handler", "1ms"), size: 20_000, share: 2, least: 500, run: with(func(w *drain) { w.takes = time.Millisecond })},
		{name: name("process", "handler", "50ms"), size: 2000, least: 200, rounds: 3, run: with(func(w *drain) { w.takes = 50 * time.Millisecond })},
		{name: name("process", "queues", "6:3:1"), size: 40_000, share: 4, least: 500, run: with(func(w *drain) {
			w.queues = map[string]int{"high": 6, "middle": 3, "low": 1}
		})},
		{name: name("process", "retention", "result"), size: 30_000, share: 3, least: 500, sides: floored, run: with(func(w *drain) {
			w.retention, w.result = time.Hour, payload(100, 0)
		})},
		{name: name("enqueue", "unique", 64), size: 40_000, least: 500, run: produce{goroutines: 64, size: 100, unique: time.Hour}.run},
		{name: name("process", "unique", 100), size: 40_000, share: 4, least: 500, run: with(func(w *drain) { w.unique = time.Hour })},
	}
	for _, c := range []struct {
		delay         time.Duration
		tasks, rounds int
		sides         []string
	}{{0, 20_000, 0, []string{sideOurs, sideLogged, sideReference}}, {time.Second, 10_000, 2, nil}} {
		list = append(list, &workload{
			name: name("process", "retry", c.delay), size: c.tasks, least: 200, rounds: c.rounds, sides: c.sides,
			run: with(func(w *drain) { w.failFirst, w.retryDelay = true, c.delay }),
		})
	}
	for _, c := range []struct {
		name         string
		bytes, tasks int
	}{{"10kB", 10_000, 10_000}, {"1MB", 1_000_000, 200}} {
		list = append(list,
			&workload{
				name: name("enqueue", "payload", c.name), size: c.tasks, least: 20, sides: floored,
				run: produce{goroutines: 8, size: c.bytes}.run,
			},
			&workload{
				name: name("process", "payload", c.name), size: c.tasks, least: 20, sides: floored,
				run: with(func(w *drain) { w.size = c.bytes }),
			})
	}
	return list
}

func waiting() []*workload {
	return []*workload{
		{name: name("latency", "idle", "lone tasks"), size: 100, least: 12, rounds: 3, run: sporadic{servers: 12}.run},
		{name: name("latency", "servers", 1), size: 3000, least: 200, run: trickle{servers: 1, rate: 1000}.run},
		{name: name("latency", "servers", 50), size: 3000, least: 200, rounds: 2, run: trickle{servers: 50, rate: 1000}.run},
		{name: name("lateness", "scheduled", "within 5s"), size: 500, least: 20, rounds: 1, run: punctual{within: 5 * time.Second}.run},
		{name: name("idle", "servers", 1), rounds: 1, run: rest{lasts: 15 * time.Second}.run},
	}
}

func holding() []*workload {
	list := []*workload{{name: name("active", "10", startOrder), size: 10_000, least: 500, rounds: 3, run: hold{10, startOrder}.run}}
	for _, c := range []struct {
		order
		tasks, rounds int
	}{{startOrder, 1000, 1}, {reverseOrder, 1000, 1}, {randomOrder, 2000, 0}} {
		list = append(list, &workload{
			name: name("active", "10000", c.order), size: c.tasks, least: 100, rounds: c.rounds, run: hold{10_000, c.order}.run,
		})
	}
	return list
}

// The workloads of the sections about footprints.
var (
	clusterQueues = name("cluster", "queues", 1000)
	startImport   = name("start", "program", "import")
	startVersion  = name("start", "command", "version")
	startStats    = name("start", "command", "stats")
	memoryPending = name("memory", "pending", 100_000)
)

func footprints() []*workload {
	list := []*workload{
		{name: clusterQueues, size: 24, least: 6, cluster: true, run: manyQueues{queues: 1000}.run},
		{name: memoryPending, size: 100_000, least: 5000, rounds: 2, run: stock{}.run},
		{name: startImport, size: 40, least: 10, sides: floored, programs: true, run: launch{}.run},
	}
	for _, c := range []struct{ name, command string }{{startVersion, "version"}, {startStats, "stats"}} {
		list = append(list, &workload{
			name: c.name, size: 40, least: 10, sides: []string{sideOurs}, programs: true, run: launch{c.command}.run,
		})
	}
	return list
}
