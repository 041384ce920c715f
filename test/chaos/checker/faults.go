package checker

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/asynq-go/asynq/test/chaos/history"
)

// span is a time in which a process cannot reach Redis. Spans that are so close that nothing need
// happen in between are merged.
type span struct {
	from, until int64
	name        string // of the first fault
}

// lossy is a period whose writes may be lost.
type lossy struct {
	from, at, until int64
	name            string
}

// end is the time of death of a process.
type end struct {
	at      int64
	process string
}

// faultIndex reports what the faults explain.
type faultIndex struct {
	lease, extend, slack int64

	faults  []*history.Event
	ends    map[string][]int64
	deaths  []end // of possible workers, by time
	losses  []lossy
	spans   map[string][]span // of processes named by faults
	common  []span            // of all other processes
	stalls  []span            // spans in which a lease may have expired
	blames  map[string][]*history.Event
	longest int64           // longest of the stalls
	crashed map[string]bool // processes that a handler ends
}

// newFaultIndex collects the faults and deaths of a history.
func newFaultIndex(s *timeline, rules Rules) *faultIndex {
	t := &faultIndex{
		lease: int64(rules.Lease), extend: int64(rules.Extend), slack: int64(rules.Slack),
		faults: s.faults, ends: s.ends, spans: make(map[string][]span), blames: make(map[string][]*history.Event), crashed: make(map[string]bool),
	}
	for _, r := range s.runs {
		if r.step() == history.Crash {
			t.crashed[r.started.Process] = true
		}
	}
	for process, ends := range s.ends {
		slices.Sort(ends)
		if s.senders[process] && !s.workers[process] {
			continue
		}
		for _, at := range ends {
			t.deaths = append(t.deaths, end{at, process})
		}
	}
	slices.SortFunc(t.deaths, func(a, b end) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.process, b.process)) })
	own := make(map[string][]span)
	var all []span
	for _, f := range s.faults {
		sp := span{f.At, max(f.At, f.Until), name(f)}
		if f.Loses > 0 && rules.MayLose {
			t.losses = append(t.losses, lossy{f.At - int64(f.Loses), f.At, sp.until, sp.name})
			// Extensions within the lost period are lost.
			all = append(all, span{f.At - int64(f.Loses), sp.until, sp.name})
		}
		for _, target := range f.Targets {
			if target == "*" {
				all = append(all, sp)
			} else {
				own[target] = append(own[target], sp)
				t.blames[target] = append(t.blames[target], f)
			}
		}
	}
	t.common = t.merge(all)
	t.stall(t.common, nil)
	for process, spans := range own {
		t.spans[process] = t.merge(append(spans, all...))
		t.stall(t.spans[process], t.common)
	}
	slices.SortFunc(t.stalls, func(a, b span) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.until, b.until)) })
	return t
}

// stall records the spans in which a lease may have expired, except those already recorded for all
// processes.
func (t *faultIndex) stall(spans, noted []span) {
	for _, sp := range spans {
		if sp.until-sp.from >= t.lease-2*t.extend-2*t.slack && !slices.Contains(noted, sp) {
			t.stalls = append(t.stalls, sp)
			t.longest = max(t.longest, sp.until-sp.from)
		}
	}
}

// name returns the name of a fault in the report.
func name(f *history.Event) string {
	if f.Name == "" {
		return "unnamed fault"
	}
	return f.Name
}

// merge sorts spans and joins those between which no lease need be extended.
func (t *faultIndex) merge(spans []span) []span {
	slices.SortStableFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var merged []span
	for _, sp := range spans {
		if n := len(merged); n > 0 && sp.from-merged[n-1].until <= t.extend+t.slack {
			merged[n-1].until = max(merged[n-1].until, sp.until)
			continue
		}
		merged = append(merged, sp)
	}
	return merged
}

// silences returns when a process could not reach Redis, beginning with the first span that ends at
// from or later.
func (t *faultIndex) silences(process string, from int64) []span {
	spans, named := t.spans[process]
	if !named {
		spans = t.common
	}
	i := sort.Search(len(spans), func(i int) bool { return spans[i].until >= from })
	return spans[i:]
}

// lapsed reports whether the lease of a run may have expired by the time at, and in which span: one
// that began no later than before.
//
// The last certain extension was [Rules.Extend] before the span, or the fetch, if the run started
// later. If the span ended before that lease expired, the process extended it again.
func (t *faultIndex) lapsed(process string, start, before, at int64) (string, bool) {
	for _, sp := range t.silences(process, start-t.slack) {
		if sp.from > before {
			break
		}
		ends := max(sp.from-t.extend, min(start, sp.from)) - t.slack + t.lease
		if at >= ends && sp.until+t.extend+t.slack >= ends {
			return sp.name, true
		}
	}
	return "", false
}

// fetched returns the earliest time at which the task of a run may have been fetched: if the
// process was stopped then, it may have been frozen before the first action of the handler.
func (t *faultIndex) fetched(process string, start int64) int64 {
	from := start
	for _, sp := range t.silences(process, start-t.slack) {
		if sp.from > start {
			break
		}
		from = min(from, sp.from)
	}
	return from - t.slack
}

// settledBy returns when the outcome of a run that finished at a time reached Redis, if its process
// kept running.
func (t *faultIndex) settledBy(process string, at int64) int64 {
	by := at + t.slack
	for _, sp := range t.silences(process, at) {
		if sp.from > by {
			break
		}
		by = max(by, sp.until+t.slack)
	}
	return by
}

// death returns the time of death of a process that ran at a time; math.MaxInt64 if it has none.
func (t *faultIndex) death(process string, from int64) int64 {
	ends := t.ends[process]
	i, _ := slices.BinarySearch(ends, from)
	if i == len(ends) {
		return math.MaxInt64
	}
	return ends[i]
}

// blame returns the cause of death of a process: a fault that named it at that time, or else a
// handler, or else the last recent fault that named it, because a shutdown takes time.
func (t *faultIndex) blame(process string, at int64) string {
	var recent *history.Event
	faults := t.blames[process]
	for i := len(faults) - 1; i >= 0; i-- {
		f := faults[i]
		if f.At > at+t.slack {
			continue
		}
		if at-f.At <= t.slack {
			return name(f)
		}
		if recent == nil && at-max(f.At, f.Until) <= t.lease {
			recent = f
		}
	}
	switch {
	case t.crashed[process]:
		return "crash"
	case recent != nil:
		return name(recent)
	}
	return "end of the process"
}

// loss returns a fault that may have lost writes between two times; nil if there is none.
func (t *faultIndex) loss(from, until int64) *lossy {
	for i := range t.losses {
		if l := &t.losses[i]; l.from <= until && l.until >= from {
			return l
		}
	}
	return nil
}

// lossFrom returns the earliest time since which writes may be lost by a fault that may have lost
// writes between two times.
func (t *faultIndex) lossFrom(from, until int64) (int64, bool) {
	earliest, found := int64(math.MaxInt64), false
	for _, l := range t.losses {
		if l.from <= until && l.until >= from {
			earliest, found = min(earliest, l.from), true
		}
	}
	return earliest, found
}

// unseen returns the number of attempts of a task that may have ended without a trace between two
// times: fetched by a process that died or was stopped before the first action of the handler.
func (t *faultIndex) unseen(from, until int64) int {
	from -= t.slack
	lo := sort.Search(len(t.deaths), func(i int) bool { return t.deaths[i].at >= from })
	hi := sort.Search(len(t.deaths), func(i int) bool { return t.deaths[i].at > until })
	n := max(hi-lo, 0)
	first := sort.Search(len(t.stalls), func(i int) bool { return t.stalls[i].from >= from-t.longest })
	for _, sp := range t.stalls[first:] {
		if sp.from > until {
			break
		}
		if sp.until >= from {
			n++
		}
	}
	return n
}

// seconds formats a time difference.
func seconds(ns int64) string { return time.Duration(ns).Round(time.Millisecond).String() }
