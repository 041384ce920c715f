package main

import "strconv"

// dimension is something that grows: the cost of a task is measured at several sizes of it.
type dimension struct {
	name   string
	values []int
	// workload returns what is measured at one of them.
	workload func(value int) *workload
}

// growthName is the name of the workload at one size of a dimension.
func growthName(dimension string, value int) string {
	return "growth/" + dimension + "=" + strconv.Itoa(value)
}

// dimensions are all that grow. A quick run leaves out the largest sizes.
func dimensions(quick bool) []*dimension {
	list := []*dimension{
		{"pending tasks", []int{1000, 10_000, 100_000, 1_000_000}, func(v int) *workload {
			return &workload{size: 10_000, least: 500, run: drain{concurrency: 100, size: 100, behind: v}.run}
		}},
		{"active tasks", []int{10, 100, 1000, 10_000, 100_000}, func(v int) *workload {
			w := &workload{size: 2000, least: 200, run: hold{v, startOrder}.run}
			if v > 10_000 {
				w.only = sideOurs // the other takes many minutes
			}
			return w
		}},
		{"servers", []int{1, 3, 10, 50}, func(v int) *workload {
			return &workload{size: 10_000, least: 1000, run: drain{concurrency: 10, size: 100, servers: v}.run}
		}},
		{"queues", []int{1, 3, 10, 30, 100}, func(v int) *workload {
			return &workload{size: 10_000, least: 1000, run: drain{concurrency: 100, size: 100, queues: equalQueues(v)}.run}
		}},
		{"groups", []int{10, 100, 1000, 10_000}, func(v int) *workload {
			return &workload{size: 20_000, least: 500, run: gather{v}.run}
		}},
	}
	for _, d := range list {
		sized := d.workload
		d.workload = func(value int) *workload {
			w := sized(value)
			w.name = growthName(d.name, value)
			w.rounds = 1
			return w
		}
		if quick {
			d.values = d.values[:2]
		}
	}
	return list
}

// equalQueues returns n queues of the same weight.
func equalQueues(n int) map[string]int {
	queues := make(map[string]int, n)
	for i := range n {
		queues["q"+strconv.Itoa(i)] = 1
	}
	return queues
}
