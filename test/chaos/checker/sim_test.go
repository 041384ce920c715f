package checker

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/asynq-go/asynq/test/chaos/history"
)

// simRules are the rules of the simulation.
var simRules = Rules{
	Lease: 3 * time.Second, Extend: time.Second, Slack: 400 * time.Millisecond, MayLose: true, CrashCounts: true, Examples: 3,
}

const simStep = int64(20 * time.Millisecond)

// simOptions configures faults and tasks.
type simOptions struct {
	tasks     int
	calm      bool    // no faults
	rate      float64 // probability of a fault per step
	noCrashes bool    // no plan kills its process
	crashFree bool    // runs whose lease expired do not count
}

// simTask is a task in the simulated Redis.
type simTask struct {
	offer   *history.Event
	state   string // "" means that it does not exist
	queue   string
	retried int
	limit   int
	due     int64 // due time of retry and scheduled; creation time of aggregating
	lease   int64
	token   int
	members []string
}

// sim is a small model of a queue with producers, workers and faults. Its histories are valid by
// construction, independent of the rules of the checker.
type sim struct {
	simOptions
	rng     *rand.Rand
	now     int64
	events  []history.Event
	tasks   map[string]*simTask
	order   []string
	counts  map[string][2]int // processed, failures
	journal []simChange
	workers []*simWorker
	down    int64 // Redis is unreachable until this time
	token   int
	born    int
	made    int // number of aggregated tasks
	offered int
}

// simChange undoes one change.
type simChange struct {
	at   int64
	undo func()
}

// simulate returns the history of one run.
func simulate(seed uint64, o simOptions) []history.Event {
	s := &sim{
		simOptions: o, rng: rand.New(rand.NewPCG(seed, 1)), now: 1e18, tasks: make(map[string]*simTask), counts: map[string][2]int{},
	}
	for range 3 {
		s.startWorker()
	}
	for quiet := 0; ; {
		s.now = (s.now/simStep + 1) * simStep
		busy := s.offered < o.tasks
		if busy {
			s.produce()
			if !o.calm {
				s.injectFault()
			}
		}
		for _, w := range slices.Clone(s.workers) {
			s.tick(w)
		}
		if busy || !s.idle() {
			quiet = 0
		} else if quiet++; quiet > 10 {
			break
		}
	}
	s.recordEnd()
	return s.events
}

// emit writes an event. Each has a different time.
func (s *sim) emit(e history.Event) {
	s.now += 1 + s.rng.Int64N(2000)
	e.At = s.now
	s.events = append(s.events, e)
}

// chance returns true with a probability.
func (s *sim) chance(p float64) bool { return s.rng.Float64() < p }

// up reports whether Redis is reachable.
func (s *sim) up() bool { return s.now >= s.down }

// set changes a task in Redis with f, which gets a copy.
func (s *sim) set(id string, f func(t *simTask)) {
	before := s.tasks[id]
	t := &simTask{}
	if before != nil {
		*t = *before
	} else {
		s.order = append(s.order, id)
	}
	f(t)
	s.tasks[id] = t
	s.journal = append(s.journal, simChange{s.now, func() {
		if before == nil {
			before = &simTask{}
		}
		s.tasks[id] = before
	}})
}

// count adds to the statistics of a queue.
func (s *sim) count(queue string, failed bool) {
	before := s.counts[queue]
	after := before
	after[0]++
	if failed {
		after[1]++
	}
	s.counts[queue] = after
	s.journal = append(s.journal, simChange{s.now, func() { s.counts[queue] = before }})
}

// setBack undoes all changes after a time.
func (s *sim) setBack(to int64) {
	for len(s.journal) > 0 && s.journal[len(s.journal)-1].at > to {
		s.journal[len(s.journal)-1].undo()
		s.journal = s.journal[:len(s.journal)-1]
	}
}

// produce offers some tasks.
func (s *sim) produce() {
	for range s.rng.IntN(3) {
		if s.offered < s.simOptions.tasks {
			s.offer()
		}
	}
}

// offer offers one task.
func (s *sim) offer() {
	s.offered++
	plans := [][]string{{history.Succeed}, {history.Succeed}, {history.Fail, history.Succeed}, {history.Panic, history.Fail, history.Huge}, {history.Fail}, {history.Hang, history.Succeed}}
	if !s.noCrashes && !s.calm {
		plans = append(plans, []string{history.Crash, history.Succeed})
	}
	o := history.Event{
		Kind: history.Offered, Process: "producer", Task: fmt.Sprintf("t%d", s.offered), Queue: fmt.Sprintf("q%d", s.rng.IntN(2)),
		Plan: plans[s.rng.IntN(len(plans))], MaxRetry: s.rng.IntN(4),
	}
	if s.chance(0.5) {
		o.Retention = time.Hour
	}
	switch {
	case s.chance(0.15):
		o.Group, o.Plan = "g", nil
	case s.chance(0.2):
		o.UniqueKey, o.UniqueTTL = fmt.Sprintf("u%d", s.rng.IntN(4)), time.Minute
	}
	if s.chance(0.2) {
		o.Delay = time.Duration(s.rng.Int64N(int64(time.Second)))
	}
	s.emit(o)
	e := history.Event{Kind: history.Accepted, Process: o.Process, Task: o.Task, Queue: o.Queue}
	switch taken := s.locked(o); {
	case taken:
		e.Kind, e.Err = history.Refused, "duplicate"
	case !s.up() && s.chance(0.3):
		e.Kind, e.Err = history.Refused, "no connection"
	case !s.up() || !s.calm && s.chance(0.01):
		e.Kind, e.Err = history.Unknown, "connection cut"
		if s.chance(0.5) {
			s.enqueue(o)
		}
	default:
		s.enqueue(o)
	}
	if !s.calm && s.chance(0.01) {
		return // the worker died
	}
	s.emit(e)
}

// locked reports whether another task holds the lock.
func (s *sim) locked(o history.Event) bool {
	if o.UniqueKey == "" {
		return false
	}
	for _, id := range s.order {
		switch t := s.tasks[id]; t.state {
		case "", "completed", "archived":
		default:
			if t.offer != nil && t.offer.UniqueKey == o.UniqueKey && t.queue == o.Queue {
				return true
			}
		}
	}
	return false
}

// enqueue adds a task to Redis.
func (s *sim) enqueue(o history.Event) {
	s.set(o.Task, func(t *simTask) {
		*t = simTask{offer: &o, queue: o.Queue, limit: o.MaxRetry, state: "pending"}
		switch {
		case o.Delay > 0:
			t.state, t.due = "scheduled", s.now+int64(o.Delay)
		case o.Group != "":
			t.state, t.due = "aggregating", s.now
		}
	})
}

// forward moves due tasks, aggregates groups, and recovers tasks with expired leases.
func (s *sim) forward() {
	groups := make(map[string][]string)
	for _, id := range s.order {
		switch t := s.tasks[id]; {
		case (t.state == "scheduled" || t.state == "retry") && t.due <= s.now:
			s.set(id, func(t *simTask) {
				t.state = "pending"
				if t.offer != nil && t.offer.Group != "" {
					t.state, t.due = "aggregating", s.now
				}
			})
		case t.state == "active" && t.lease <= s.now:
			s.reclaim(id)
		case t.state == "aggregating":
			groups[t.queue] = append(groups[t.queue], id)
		}
	}
	for _, queue := range []string{"q0", "q1"} {
		members := groups[queue]
		if len(members) < 3 && (len(members) == 0 || s.tasks[members[0]].due > s.now-int64(500*time.Millisecond)) {
			continue
		}
		s.made++
		s.set(fmt.Sprintf("a%d", s.made), func(t *simTask) {
			*t = simTask{queue: queue, state: "pending", limit: 2, members: members}
		})
		for _, id := range members {
			s.set(id, func(t *simTask) { t.state = "" })
		}
	}
}

// reclaim ends an attempt whose lease has expired.
func (s *sim) reclaim(id string) {
	s.set(id, func(t *simTask) {
		t.state, t.token = "pending", 0
		if s.crashFree {
			return
		}
		s.count(t.queue, true)
		if t.retried >= t.limit {
			t.state = "archived"
		} else {
			t.retried++
		}
	})
}

// idle reports whether nothing is left to do.
func (s *sim) idle() bool {
	for _, w := range s.workers {
		if len(w.runs) > 0 {
			return false
		}
	}
	for _, id := range s.order {
		switch s.tasks[id].state {
		case "", "completed", "archived":
		default:
			return false
		}
	}
	return true
}

// recordEnd adds the final state.
func (s *sim) recordEnd() {
	for _, id := range s.order {
		if t := s.tasks[id]; t.state != "" {
			s.emit(history.Event{Kind: history.Outcome, Task: id, Queue: t.queue, State: t.state, Retried: t.retried})
		}
	}
	for _, queue := range []string{"q0", "q1"} {
		s.emit(history.Event{Kind: history.Queue, Queue: queue, Processed: s.counts[queue][0], Failures: s.counts[queue][1]})
	}
}
