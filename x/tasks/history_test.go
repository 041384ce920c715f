package tasks_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"
)

// run is one attempt, as reported by its worker. The reported interval lies within the actual one,
// so runs that overlap in the reports do overlap.
type run struct {
	worker, task, attempt int
	begin, end            time.Duration // end is 0 if it was not reported
	ok                    bool
}

func (r run) String() string {
	return fmt.Sprintf("attempt %d of task %d, worker %d, %v to %v", r.attempt, r.task, r.worker, r.begin, r.end)
}

// fault is a fault of a worker: killed, or frozen for some time.
type fault struct {
	worker   int
	from, to time.Duration // to is 0 if it was killed
}

// checkRuns checks the runs of a queue of n tasks that runs one at a time, and returns the
// violations.
func checkRuns(runs []run, faults []fault, n int, inOrder bool) (wrong []string) {
	report := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	runs = slices.Clone(runs)
	slices.SortFunc(runs, func(a, b run) int { return cmp.Compare(a.begin, b.begin) })
	newest := make(map[int]int) // latest attempt of each task
	done := make(map[int]bool)
	next := 0 // next task to start
	var last run
	var held time.Duration // end of the previous lease
	for _, r := range runs {
		if attempt, seen := newest[r.task]; seen && attempt >= r.attempt && resumed(r, faults) {
			continue // its lease had expired before the report
		}
		if r.begin < held {
			report("%v overlaps with %v", r, last)
		}
		if r.task == next {
			next++
		} else if _, seen := newest[r.task]; !seen {
			report("%v started before task %d", r, next)
			next = max(next, r.task+1)
		}
		if inOrder && r.task < last.task {
			report("%v started after task %d", r, last.task)
		}
		if inOrder && r.task > last.task && !done[last.task] {
			report("%v overtook task %d, which had not succeeded", r, last.task)
		}
		newest[r.task], done[r.task], last = r.attempt, done[r.task] || r.ok, r
		var explained bool
		if held, explained = leaseEnd(r, faults); !explained {
			report("%v did not end, although its worker had no fault", r)
		}
	}
	for task := range n {
		if !done[task] {
			report("task %d did not succeed", task)
		}
	}
	return wrong
}

// leaseEnd returns until when a run certainly held its lease: until it ended, or its worker was
// killed or frozen for longer than the lease duration.
func leaseEnd(r run, faults []fault) (end time.Duration, explained bool) {
	end = r.end
	for _, f := range faults {
		lost := f.to == 0 || f.to-f.from >= lease
		if f.worker == r.worker && lost && f.from >= r.begin && (end == 0 || f.from < end) {
			end = f.from
		}
	}
	return end, end > 0
}

// resumed reports whether the run was reported after its worker was frozen for longer than the
// lease duration.
func resumed(r run, faults []fault) bool {
	return slices.ContainsFunc(faults, func(f fault) bool {
		return f.worker == r.worker && f.to > 0 && f.to <= r.begin && f.to-f.from >= lease
	})
}

func TestCheckRuns(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for _, test := range []struct {
		name    string
		runs    []run
		faults  []fault
		serial  int // violations without strict order
		inOrder int // violations with strict order
	}{
		{"in order", []run{{1, 0, 0, 1 * s, 2 * s, true}, {2, 1, 0, 2 * s, 3 * s, true}}, nil, 0, 0},
		{"overlap", []run{{1, 0, 0, 1 * s, 3 * s, true}, {2, 1, 0, 2 * s, 3 * s, true}}, nil, 1, 1},
		{"out of order", []run{{1, 1, 0, 1 * s, 2 * s, true}, {2, 0, 0, 2 * s, 3 * s, true}}, nil, 2, 4},
		{"never started", []run{{1, 0, 0, 1 * s, 2 * s, true}}, nil, 1, 1},
		{"overtaken", []run{{1, 0, 0, 1 * s, 2 * s, false}, {1, 1, 0, 2 * s, 3 * s, true}, {1, 0, 1, 3 * s, 4 * s, true}}, nil, 0, 2},
		{"retried", []run{{1, 0, 0, 1 * s, 2 * s, false}, {1, 0, 1, 2 * s, 3 * s, true}, {1, 1, 0, 3 * s, 4 * s, true}}, nil, 0, 0},
		{
			"killed", []run{{1, 0, 0, 1 * s, 0, false}, {2, 0, 1, 4 * s, 5 * s, true}, {2, 1, 0, 5 * s, 6 * s, true}},
			[]fault{{1, 2 * s, 0}}, 0, 0,
		},
		{
			"missing end without fault", []run{{1, 0, 0, 1 * s, 0, false}, {2, 0, 1, 4 * s, 5 * s, true}, {2, 1, 0, 5 * s, 6 * s, true}},
			[]fault{{2, 2 * s, 0}}, 1, 1,
		},
		{
			"frozen", []run{{1, 0, 0, 1 * s, 7 * s, false}, {2, 0, 1, 4 * s, 5 * s, true}, {2, 1, 0, 5 * s, 8 * s, true}},
			[]fault{{1, 2 * s, 6 * s}}, 0, 0,
		},
		{
			"frozen for less than the lease", []run{{1, 0, 0, 1 * s, 7 * s, false}, {2, 0, 1, 4 * s, 5 * s, true}, {2, 1, 0, 7 * s, 8 * s, true}},
			[]fault{{1, 2 * s, 3 * s}}, 1, 1,
		},
		{
			"resumed after another worker completed the task", []run{{2, 0, 1, 4 * s, 5 * s, true}, {2, 1, 0, 5 * s, 8 * s, true}, {1, 0, 0, 6 * s, 7 * s, false}},
			[]fault{{1, 2 * s, 6 * s}}, 0, 0,
		},
	} {
		for _, kind := range []struct {
			inOrder bool
			want    int
		}{{false, test.serial}, {true, test.inOrder}} {
			if got := checkRuns(test.runs, test.faults, 2, kind.inOrder); len(got) != kind.want {
				t.Errorf("%s, in order %v: want %d violations, got %q", test.name, kind.inOrder, kind.want, got)
			}
		}
	}
}
