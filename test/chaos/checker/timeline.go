package checker

import (
	"cmp"
	"slices"

	"github.com/asynq-go/asynq/test/chaos/history"
)

// run is one run of a handler.
type run struct {
	task     *task
	started  *history.Event
	finished *history.Event // nil if not recorded
	lost     *history.Event // nil if its lease was not lost
	stale    bool           // it started after its lease had expired and another run had started: its outcome was rejected
}

// succeeded reports whether the handler returned nil.
func (r *run) succeeded() bool { return r.finished != nil && r.finished.Err == "" }

// step returns the planned step of a run; "" if unknown.
func (r *run) step() string {
	switch {
	case r.finished != nil:
		return r.finished.Step
	case r.task.offered == nil || len(r.task.offered.Plan) == 0 || r.started.Retried < 0:
		return ""
	}
	plan := r.task.offered.Plan
	return plan[min(r.started.Retried, len(plan)-1)]
}

// task is a task with its events.
type task struct {
	id       string
	offered  *history.Event // the first offer; nil for aggregated and unknown tasks
	accepted *history.Event
	answer   *history.Event // the last rejection or unknown result
	unknown  bool           // a result was unknown
	offers   int
	answers  int
	runs     []*run         // ordered by start
	outcome  *history.Event // nil if it does not exist at the end
	outcomes int
	groups   []*task  // aggregated tasks that name it as a member
	members  []string // of an aggregated task
}

// queue returns the queue of the task.
func (t *task) queue() string {
	switch {
	case t.offered != nil:
		return t.offered.Queue
	case len(t.runs) > 0:
		return t.runs[0].started.Queue
	case t.outcome != nil:
		return t.outcome.Queue
	case t.accepted != nil:
		return t.accepted.Queue
	}
	return ""
}

// maxRetry returns the maximum number of retries; false if unknown.
func (t *task) maxRetry() (int, bool) {
	switch {
	case t.offered != nil:
		return t.offered.MaxRetry, true
	case len(t.runs) > 0:
		return t.runs[0].started.MaxRetry, true
	}
	return 0, false
}

// before returns the last of the first n runs whose outcome Redis may have accepted; nil if there
// is none.
func (t *task) before(n int) *run {
	for i := n - 1; i >= 0; i-- {
		if !t.runs[i].stale {
			return t.runs[i]
		}
	}
	return nil
}

// last returns the last run whose outcome Redis may have accepted; nil if there is none.
func (t *task) last() *run { return t.before(len(t.runs)) }

// success returns the last successful run; nil if there is none.
func (t *task) success() *run {
	for i := len(t.runs) - 1; i >= 0; i-- {
		if t.runs[i].succeeded() {
			return t.runs[i]
		}
	}
	return nil
}

// refused reports whether all results say that the task does not exist.
func (t *task) refused() bool {
	return t.accepted == nil && !t.unknown && t.answer != nil && t.answers >= t.offers
}

// entered returns the interval in which the task was enqueued, if it was.
func (t *task) entered() (from, until int64) {
	switch {
	case t.accepted != nil:
		until = t.accepted.At
	case len(t.runs) > 0:
		until = t.runs[0].started.At
	case t.outcome != nil:
		until = t.outcome.At
	case t.answer != nil:
		until = t.answer.At
	case t.offered != nil:
		until = t.offered.At
	}
	from = until
	if t.offered != nil {
		from = min(t.offered.At, until)
	}
	return from, until
}

// timeline is a history, sorted by subject.
type timeline struct {
	tasks    map[string]*task
	order    []*task // in order of their first event
	queues   map[string]*history.Event
	findings []*history.Event
	faults   []*history.Event
	ends     map[string][]int64 // times of death by process
	alive    map[string]bool
	workers  map[string]bool // processes that ran a task
	senders  map[string]bool // processes that offered a task
	runs     map[string]*run
	early    []*history.Event // events before the start of their run
	until    int64            // time of the last event
	odd      map[string]int
}

// read sorts events by time and then by subject. It does not change them.
func read(events []history.Event) *timeline {
	s := &timeline{
		tasks: make(map[string]*task), queues: make(map[string]*history.Event), ends: make(map[string][]int64),
		alive: make(map[string]bool), workers: make(map[string]bool), senders: make(map[string]bool), runs: make(map[string]*run), odd: make(map[string]int),
	}
	byTime := make([]*history.Event, len(events))
	for i := range events {
		byTime[i] = &events[i]
	}
	slices.SortStableFunc(byTime, func(a, b *history.Event) int { return cmp.Compare(a.At, b.At) })
	for _, e := range byTime {
		s.add(e)
	}
	for _, e := range s.early {
		s.ofRun(e, true)
	}
	for _, t := range s.order {
		for _, id := range t.members {
			if m := s.tasks[id]; m != nil {
				m.groups = append(m.groups, t)
			} else {
				s.odd["member of a group that was never offered"]++
			}
		}
	}
	if n := len(byTime); n > 0 {
		s.until = byTime[n-1].At
	}
	return s
}

// task returns the task with an ID, and creates it if needed.
func (s *timeline) task(id string) *task {
	t := s.tasks[id]
	if t == nil {
		t = &task{id: id}
		s.tasks[id] = t
		s.order = append(s.order, t)
	}
	return t
}

// add adds an event.
func (s *timeline) add(e *history.Event) {
	switch e.Kind {
	case history.Born:
		s.born(e)
	case history.Died:
		s.alive[e.Process] = false
		s.ends[e.Process] = append(s.ends[e.Process], e.At)
	case history.Fault:
		s.faults = append(s.faults, e)
	case history.Queue:
		if s.queues[e.Queue] != nil {
			s.odd["statistics of a queue twice"]++
		}
		s.queues[e.Queue] = e
	case history.Finding:
		s.findings = append(s.findings, e)
	case history.Finished, history.Lost:
		s.ofRun(e, false)
	default:
		s.ofTask(e)
	}
}

// born records that the previous process of the same name has exited, if that was not recorded.
func (s *timeline) born(e *history.Event) {
	if s.alive[e.Process] {
		s.ends[e.Process] = append(s.ends[e.Process], e.At)
		s.odd["born again without having died"]++
	}
	s.alive[e.Process] = true
}

// ofTask adds an event of a task.
func (s *timeline) ofTask(e *history.Event) {
	if e.Task == "" {
		s.odd["event of no task: "+string(e.Kind)]++
		return
	}
	switch e.Kind {
	case history.Offered:
		t := s.task(e.Task)
		t.offers++
		if t.offered == nil {
			t.offered = e
		}
		s.senders[e.Process] = true
	case history.Accepted:
		t := s.task(e.Task)
		t.answers++
		if t.accepted == nil {
			t.accepted = e
		}
	case history.Refused, history.Unknown:
		t := s.task(e.Task)
		t.answers++
		t.answer = e
		t.unknown = t.unknown || e.Kind == history.Unknown
	case history.Started:
		s.start(e)
	case history.Outcome:
		t := s.task(e.Task)
		t.outcomes++
		t.outcome = e
	case history.Failed:
		// The view of the error handler, which is not checked.
	default:
		s.odd["event of an unknown kind: "+string(e.Kind)]++
	}
}

// start adds the start of a run.
func (s *timeline) start(e *history.Event) {
	if s.runs[e.Run] != nil {
		s.odd["run started twice"]++
		return
	}
	t := s.task(e.Task)
	r := &run{task: t, started: e}
	s.runs[e.Run] = r
	if len(t.runs) == 0 {
		t.members = e.Members
	}
	t.runs = append(t.runs, r)
	s.workers[e.Process] = true
}

// ofRun adds an event of a run. An event before the start of its run is deferred once.
func (s *timeline) ofRun(e *history.Event, late bool) {
	r := s.runs[e.Run]
	switch {
	case r == nil && !late:
		s.early = append(s.early, e)
	case r == nil || r.task.id != e.Task:
		s.odd["end of a run that was not started"]++
	case e.Kind == history.Lost:
		r.lost = e
	case r.finished != nil:
		s.odd["run finished twice"]++
	default:
		r.finished = e
	}
}
