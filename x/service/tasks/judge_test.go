package tasks_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"
)

// run is one attempt of a task, as its worker reported it. The report begins after the attempt did, and ends before it: two that overlap
// did so in truth.
type run struct {
	worker, task, attempt int
	begin, end            time.Duration // end is 0 where the worker did not come to it
	ok                    bool
}

func (r run) String() string {
	return fmt.Sprintf("attempt %d of task %d, worker %d, %v to %v", r.attempt, r.task, r.worker, r.begin, r.end)
}

// fault is what was done to a worker: it was killed, or frozen for a time.
type fault struct {
	worker   int
	from, to time.Duration // to is 0 where it was killed
}

// judge says what is wrong with the runs of a queue of n tasks, in which one runs at a time.
func judge(runs []run, faults []fault, n int, inOrder bool) (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	runs = slices.Clone(runs)
	slices.SortFunc(runs, func(a, b run) int { return cmp.Compare(a.begin, b.begin) })
	newest := make(map[int]int) // attempt of each task that began last
	done := make(map[int]bool)
	next := 0 // task to start
	var last run
	var held time.Duration // until when the run before held its lease
	for _, r := range runs {
		if attempt, seen := newest[r.task]; seen && attempt >= r.attempt && awoke(r, faults) {
			continue // its lease had ended before it could report that it began
		}
		if r.begin < held {
			say("%v overlaps with %v", r, last)
		}
		if r.task == next {
			next++
		} else if _, seen := newest[r.task]; !seen {
			say("%v started before task %d", r, next)
			next = max(next, r.task+1)
		}
		if inOrder && r.task < last.task {
			say("%v began after task %d had", r, last.task)
		}
		if inOrder && r.task > last.task && !done[last.task] {
			say("%v overtook task %d, which had not succeeded", r, last.task)
		}
		newest[r.task], done[r.task], last = r.attempt, done[r.task] || r.ok, r
		var explained bool
		if held, explained = until(r, faults); !explained {
			say("%v did not end, though nothing was done to its worker", r)
		}
	}
	for task := range n {
		if !done[task] {
			say("task %d did not succeed", task)
		}
	}
	return wrong
}

// until says how long a run certainly had its lease: until it ended, its worker was killed, or frozen for longer than a lease.
func until(r run, faults []fault) (end time.Duration, explained bool) {
	end = r.end
	for _, f := range faults {
		lost := f.to == 0 || f.to-f.from >= lease
		if f.worker == r.worker && lost && f.from >= r.begin && (end == 0 || f.from < end) {
			end = f.from
		}
	}
	return end, end > 0
}

// awoke reports whether the run began after its worker was frozen for longer than a lease.
func awoke(r run, faults []fault) bool {
	return slices.ContainsFunc(faults, func(f fault) bool {
		return f.worker == r.worker && f.to > 0 && f.to <= r.begin && f.to-f.from >= lease
	})
}

func TestJudge(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for _, test := range []struct {
		name    string
		runs    []run
		faults  []fault
		serial  int // what is wrong where one runs at a time
		inOrder int // and where none overtakes, either
	}{
		{"in order", []run{{1, 0, 0, 1 * s, 2 * s, true}, {2, 1, 0, 2 * s, 3 * s, true}}, nil, 0, 0},
		{"an overlap", []run{{1, 0, 0, 1 * s, 3 * s, true}, {2, 1, 0, 2 * s, 3 * s, true}}, nil, 1, 1},
		{"out of order", []run{{1, 1, 0, 1 * s, 2 * s, true}, {2, 0, 0, 2 * s, 3 * s, true}}, nil, 2, 4},
		{"one never starts", []run{{1, 0, 0, 1 * s, 2 * s, true}}, nil, 1, 1},
		{"overtaken", []run{{1, 0, 0, 1 * s, 2 * s, false}, {1, 1, 0, 2 * s, 3 * s, true}, {1, 0, 1, 3 * s, 4 * s, true}}, nil, 0, 2},
		{"tried again", []run{{1, 0, 0, 1 * s, 2 * s, false}, {1, 0, 1, 2 * s, 3 * s, true}, {1, 1, 0, 3 * s, 4 * s, true}}, nil, 0, 0},
		{
			"killed", []run{{1, 0, 0, 1 * s, 0, false}, {2, 0, 1, 4 * s, 5 * s, true}, {2, 1, 0, 5 * s, 6 * s, true}},
			[]fault{{1, 2 * s, 0}}, 0, 0,
		},
		{
			"gone without a reason", []run{{1, 0, 0, 1 * s, 0, false}, {2, 0, 1, 4 * s, 5 * s, true}, {2, 1, 0, 5 * s, 6 * s, true}},
			[]fault{{2, 2 * s, 0}}, 1, 1,
		},
		{
			"frozen", []run{{1, 0, 0, 1 * s, 7 * s, false}, {2, 0, 1, 4 * s, 5 * s, true}, {2, 1, 0, 5 * s, 8 * s, true}},
			[]fault{{1, 2 * s, 6 * s}}, 0, 0,
		},
		{
			"frozen, but not for long enough", []run{{1, 0, 0, 1 * s, 7 * s, false}, {2, 0, 1, 4 * s, 5 * s, true}, {2, 1, 0, 7 * s, 8 * s, true}},
			[]fault{{1, 2 * s, 3 * s}}, 1, 1,
		},
		{
			"awoke to a task that another has done", []run{{2, 0, 1, 4 * s, 5 * s, true}, {2, 1, 0, 5 * s, 8 * s, true}, {1, 0, 0, 6 * s, 7 * s, false}},
			[]fault{{1, 2 * s, 6 * s}}, 0, 0,
		},
	} {
		for _, kind := range []struct {
			inOrder bool
			want    int
		}{{false, test.serial}, {true, test.inOrder}} {
			if got := judge(test.runs, test.faults, 2, kind.inOrder); len(got) != kind.want {
				t.Errorf("%s, in order %v: want %d complaints, got %q", test.name, kind.inOrder, kind.want, got)
			}
		}
	}
}
