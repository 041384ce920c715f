package checker

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/asynq-go/asynq/x/chaos/history"
)

// span is a time without Redis for a process. Spans that lie so close together that nothing need have been done in between are one.
type span struct {
	from, until int64
	name        string // of the first fault
}

// lossy is a time whose writes may be lost.
type lossy struct {
	from, at, until int64
	name            string
}

// end is when a process was gone.
type end struct {
	at      int64
	process string
}

// trouble answers what the faults explain.
type trouble struct {
	lease, extend, slack int64

	faults  []*history.Event
	ends    map[string][]int64
	deaths  []end // of what may have been a worker, by time
	losses  []lossy
	spans   map[string][]span // of the processes that faults name
	common  []span            // of all others
	stalls  []span            // silences that a lease can have ended in: those of all processes, and those of each
	blames  map[string][]*history.Event
	longest int64           // of the stalls
	crashed map[string]bool // processes that a handler was to end
}

// newTrouble reads the faults and deaths of a history.
func newTrouble(s *story, rules Rules) *trouble {
	t := &trouble{
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
			// What was extended in the time that is lost was not extended.
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

// stall notes the spans that a lease can have ended in, but for those that were noted for all processes.
func (t *trouble) stall(spans, noted []span) {
	for _, sp := range spans {
		if sp.until-sp.from >= t.lease-2*t.extend-2*t.slack && !slices.Contains(noted, sp) {
			t.stalls = append(t.stalls, sp)
			t.longest = max(t.longest, sp.until-sp.from)
		}
	}
}

// name returns what a fault is called in the report.
func name(f *history.Event) string {
	if f.Name == "" {
		return "a fault without a name"
	}
	return f.Name
}

// merge sorts spans and joins those between which a process need not have extended a lease.
func (t *trouble) merge(spans []span) []span {
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

// silences returns when a process could not reach Redis, from the first span on that ends at from or later.
func (t *trouble) silences(process string, from int64) []span {
	spans, named := t.spans[process]
	if !named {
		spans = t.common
	}
	i := sort.Search(len(spans), func(i int) bool { return spans[i].until >= from })
	return spans[i:]
}

// lapsed reports whether the lease of a run can have ended by the time at, and in which silence: one that began no later than before.
//
// The last extension that is sure came [Rules.Extend] before the silence, or with the fetch, if the run started later than that. If the
// silence was over before that lease ended, the process has extended it again.
func (t *trouble) lapsed(process string, start, before, at int64) (string, bool) {
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

// fetched returns the earliest moment at which the task of a run can have been fetched: if the process was silenced then, it may have
// been frozen before the handler's first act.
func (t *trouble) fetched(process string, start int64) int64 {
	from := start
	for _, sp := range t.silences(process, start-t.slack) {
		if sp.from > start {
			break
		}
		from = min(from, sp.from)
	}
	return from - t.slack
}

// settledBy returns when the outcome of a run that finished at a time had reached Redis, if its process lived.
func (t *trouble) settledBy(process string, at int64) int64 {
	by := at + t.slack
	for _, sp := range t.silences(process, at) {
		if sp.from > by {
			break
		}
		by = max(by, sp.until+t.slack)
	}
	return by
}

// death returns when a process was gone, for one that lived at a time; math.MaxInt64 if it was never seen to end.
func (t *trouble) death(process string, from int64) int64 {
	ends := t.ends[process]
	i, _ := slices.BinarySearch(ends, from)
	if i == len(ends) {
		return math.MaxInt64
	}
	return ends[i]
}

// blame returns the name of what ended a process: a fault that named it then, or else a handler, or else the last fault that named it, if
// that was lately: a shutdown takes its time.
func (t *trouble) blame(process string, at int64) string {
	var lately *history.Event
	faults := t.blames[process]
	for i := len(faults) - 1; i >= 0; i-- {
		f := faults[i]
		if f.At > at+t.slack {
			continue
		}
		if at-f.At <= t.slack {
			return name(f)
		}
		if lately == nil && at-max(f.At, f.Until) <= t.lease {
			lately = f
		}
	}
	switch {
	case t.crashed[process]:
		return "crash"
	case lately != nil:
		return name(lately)
	}
	return "end of the process"
}

// loss returns a fault that may have lost what was written between two moments, nil if there is none.
func (t *trouble) loss(from, until int64) *lossy {
	for i := range t.losses {
		if l := &t.losses[i]; l.from <= until && l.until >= from {
			return l
		}
	}
	return nil
}

// lossFrom returns the earliest moment to which a fault may have set Redis back that may have lost what was written between two moments.
func (t *trouble) lossFrom(from, until int64) (int64, bool) {
	earliest, found := int64(math.MaxInt64), false
	for _, l := range t.losses {
		if l.from <= until && l.until >= from {
			earliest, found = min(earliest, l.from), true
		}
	}
	return earliest, found
}

// unseen returns how many attempts at one task can have ended without a trace between two moments: fetched by a process that died or
// was silenced before the handler's first act.
func (t *trouble) unseen(from, until int64) int {
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

// seconds writes a difference of times for a reader.
func seconds(ns int64) string { return time.Duration(ns).Round(time.Millisecond).String() }
