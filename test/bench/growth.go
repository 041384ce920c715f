package main

import "strconv"

// dimension is a quantity that grows: the cost of a task is measured at several sizes.
type dimension struct {
	name   string
	rounds int // maximum; 0 means no maximum
	values []int
	// workload returns the workload at one size.
	workload func(value int) *workload
}

// workloads returns the workloads at all sizes.
func (d *dimension) workloads() (list []*workload) {
	for _, v := range d.values {
		list = append(list, d.workload(v))
	}
	return list
}

// growthName returns the name of the workload at one size of a dimension.
func growthName(dimension string, value int) string {
	return prefixGrowth + dimension + "=" + strconv.Itoa(value)
}

// dimensions returns all dimensions. A quick run has two sizes of each.
func dimensions(quick bool) []*dimension {
	list := []*dimension{
		{"pending tasks", 1, []int{1000, 10_000, 100_000, 1_000_000}, func(v int) *workload {
			return &workload{size: 10_000, least: 500, run: drain{concurrency: 100, size: 100, behind: v}.run}
		}},
		{"active tasks", 1, []int{10, 100, 1000, 10_000, 100_000}, func(v int) *workload {
			w := &workload{size: 2000, least: 200, run: hold{v, startOrder}.run}
			if v > 10_000 {
				w.sides = []string{sideOurs} // the reference takes many minutes
			}
			return w
		}},
		{"servers", 0, []int{1, 3, 10, 50}, func(v int) *workload {
			return &workload{size: 50_000, share: 5, least: 1000, run: drain{concurrency: 10, size: 100, servers: v}.run}
		}},
		{"queues", 0, []int{1, 3, 10, 30, 100}, func(v int) *workload {
			return &workload{size: 50_000, share: 5, least: 1000, run: drain{concurrency: 100, size: 100, queues: equalQueues(v)}.run}
		}},
		{"groups", 1, []int{10, 100, 1000, 10_000}, func(v int) *workload {
			return &workload{size: 20_000, least: 500, run: gather{v}.run}
		}},
	}
	for _, d := range list {
		sized := d.workload
		d.workload = func(value int) *workload {
			w := sized(value)
			w.name = growthName(d.name, value)
			w.rounds = d.rounds
			return w
		}
		switch {
		case quick && d.rounds == 0: // the targets compare these
			d.values = []int{d.values[0], d.values[len(d.values)-1]}
		case quick:
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
