package checker

import (
	"fmt"
	"slices"
	"time"

	"github.com/asynq-go/asynq/test/chaos/history"
)

// simWorker is a process that runs tasks.
type simWorker struct {
	name     string
	frozen   int64 // frozen until this time
	cut      int64 // disconnected until this time
	stopping int64 // time of requeueing its active tasks; 0 if it is not stopping
	leaving  int64 // time of its exit; 0 if unknown
	extended int64
	runs     []*simRun
}

// simRun is one run in a worker.
type simRun struct {
	id      string
	task    string
	token   int
	of      simTask // the task as fetched
	started bool
	due     int64
	err     string
	done    bool
	lost    bool
}

// startWorker starts a worker.
func (s *sim) startWorker() {
	s.born++
	w := &simWorker{name: fmt.Sprintf("w%d", s.born)}
	s.emit(history.Event{Kind: history.Born, Process: w.name})
	s.workers = append(s.workers, w)
}

// replaceWorker kills a worker and starts another.
func (s *sim) replaceWorker(w *simWorker) {
	s.emit(history.Event{Kind: history.Died, Process: w.name})
	s.workers = slices.DeleteFunc(s.workers, func(o *simWorker) bool { return o == w })
	s.startWorker()
}

// fault writes a fault that starts now.
func (s *sim) fault(name string, d, loses time.Duration, targets ...string) int64 {
	until := s.now + int64(d)
	s.events = append(s.events, history.Event{Kind: history.Fault, At: s.now, Name: name, Until: until, Targets: targets, Loses: loses})
	return until
}

// injectFault injects random faults.
func (s *sim) injectFault() {
	if !s.chance(s.rate) {
		return
	}
	w := s.workers[s.rng.IntN(len(s.workers))]
	d := time.Duration(s.rng.Int64N(int64(6 * time.Second)))
	if w.leaving != 0 {
		return
	}
	if s.chance(0.3) && s.up() && w.stopping == 0 && s.now >= max(w.cut, w.frozen) {
		s.fetch(w, true) // tasks that have not started
	}
	switch s.rng.IntN(6) {
	case 0:
		s.fault("kill", 0, 0, w.name)
		s.replaceWorker(w)
	case 1:
		w.frozen = max(w.frozen, s.fault("stop", d, 0, w.name))
	case 2:
		w.cut = max(w.cut, s.fault("network", d, 0, w.name))
	case 3:
		if w.stopping == 0 {
			s.fault("shutdown", 0, 0, w.name)
			w.stopping = s.now + int64(500*time.Millisecond)
		}
	case 4:
		s.down = max(s.down, s.fault("restart", d/2, 0, "*"))
	case 5:
		if s.up() {
			loses := time.Second
			s.setBack(s.now - s.rng.Int64N(int64(loses)))
			s.down = s.fault("failover", d/3, loses, "*")
		}
	}
}

// tick performs the immediate actions of a worker.
func (s *sim) tick(w *simWorker) {
	if s.now < w.frozen {
		return
	}
	if w.leaving != 0 {
		if s.now >= w.leaving {
			s.replaceWorker(w)
		}
		return
	}
	for _, r := range w.runs {
		if !r.started {
			s.start(w, r)
		}
		if r.done || s.now < r.due {
			continue
		}
		if s.step(r) == history.Crash {
			s.replaceWorker(w)
			return
		}
		s.finish(w, r)
	}
	if s.up() && s.now >= w.cut {
		s.reach(w)
	}
	if w.stopping != 0 && s.now >= w.stopping {
		s.release(w)
	}
}

// reach performs the actions of a worker that need Redis.
func (s *sim) reach(w *simWorker) {
	w.runs = slices.DeleteFunc(w.runs, func(r *simRun) bool {
		if r.done {
			s.settle(r)
		}
		return r.done
	})
	if s.now-w.extended > int64(800*time.Millisecond) {
		w.extended = s.now
		for _, r := range w.runs {
			switch t := s.tasks[r.task]; {
			case t.state == "active" && t.token == r.token:
				s.set(r.task, func(t *simTask) { t.lease = s.now + int64(simRules.Lease) })
			case !r.lost && !r.done:
				r.lost = true
				s.emit(history.Event{Kind: history.Lost, Process: w.name, Task: r.task, Queue: r.of.queue, Run: r.id})
			}
		}
	}
	s.forward()
	if w.stopping == 0 {
		s.fetch(w, false)
	}
}

// fetch takes tasks.
func (s *sim) fetch(w *simWorker, later bool) {
	for _, id := range s.order {
		if len(w.runs) >= 4 {
			return
		}
		if s.tasks[id].state != "pending" {
			continue
		}
		s.token++
		s.set(id, func(t *simTask) {
			t.state, t.token, t.lease = "active", s.token, s.now+int64(simRules.Lease)
		})
		r := &simRun{id: fmt.Sprintf("r%d", s.token), task: id, token: s.token, of: *s.tasks[id]}
		w.runs = append(w.runs, r)
		if !later {
			s.start(w, r)
		}
	}
}

// start is the first action of a handler.
func (s *sim) start(w *simWorker, r *simRun) {
	r.started = true
	r.due = s.now + s.rng.Int64N(int64(800*time.Millisecond))
	if s.chance(0.05) {
		r.due += int64(5 * time.Second)
	}
	s.emit(history.Event{
		Kind: history.Started, Process: w.name, Task: r.task, Queue: r.of.queue, Run: r.id, Retried: r.of.retried, MaxRetry: r.of.limit, Members: r.of.members,
	})
}

// step returns the step of a handler.
func (s *sim) step(r *simRun) string {
	if r.of.offer == nil || len(r.of.offer.Plan) == 0 {
		return history.Succeed
	}
	return r.of.offer.Plan[min(r.of.retried, len(r.of.offer.Plan)-1)]
}

// finish is the last action of a handler.
func (s *sim) finish(w *simWorker, r *simRun) {
	r.done = true
	e := history.Event{Kind: history.Finished, Process: w.name, Task: r.task, Queue: r.of.queue, Run: r.id, Step: s.step(r)}
	switch e.Step {
	case history.Fail, history.Panic, history.Goexit, history.Hang:
		r.err = "planned"
	}
	e.Err = r.err
	s.emit(e)
}

// settle sends an outcome to Redis.
func (s *sim) settle(r *simRun) {
	if t := s.tasks[r.task]; t.state != "active" || t.token != r.token {
		return // rejected
	}
	s.set(r.task, func(t *simTask) {
		s.count(t.queue, r.err != "")
		t.token = 0
		switch {
		case r.err == "" && t.offer != nil && t.offer.Retention > 0:
			t.state = "completed"
		case r.err == "":
			t.state = ""
		case t.retried >= t.limit:
			t.state = "archived"
		default:
			t.state, t.due = "retry", s.now+s.rng.Int64N(int64(500*time.Millisecond))
			t.retried++
		}
	})
}

// release requeues the active tasks of a worker.
func (s *sim) release(w *simWorker) {
	if s.up() && s.now >= w.cut {
		for _, r := range w.runs {
			if t := s.tasks[r.task]; !r.done && t.state == "active" && t.token == r.token {
				s.set(r.task, func(t *simTask) { t.state, t.token = "pending", 0 })
			}
		}
	}
	w.leaving = s.now + s.rng.Int64N(int64(200*time.Millisecond))
}
