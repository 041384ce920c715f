package checker

import (
	"slices"
	"testing"
	"time"

	"github.com/asynq-go/asynq/test/chaos/history"
)

// plot is a valid history in which a violation is planted.
type plot struct{ events []history.Event }

// find returns the index of the first matching event; -1 if there is none.
func (p *plot) find(meant func(e *history.Event) bool) int {
	return slices.IndexFunc(p.events, func(e history.Event) bool { return meant(&e) })
}

// of returns the indexes of the events of a kind of a task.
func (p *plot) of(kind history.Kind, task string) (found []int) {
	for i := range p.events {
		if p.events[i].Kind == kind && p.events[i].Task == task {
			found = append(found, i)
		}
	}
	return found
}

// first returns the first event of a kind of a task, which must exist.
func (p *plot) first(kind history.Kind, task string) *history.Event {
	return &p.events[p.of(kind, task)[0]]
}

// change applies f to the first matching event of a kind and returns its task.
func (p *plot) change(kind history.Kind, ok func(e *history.Event) bool, f func(e *history.Event)) (string, bool) {
	i := p.find(func(e *history.Event) bool { return e.Kind == kind && ok(e) })
	if i < 0 {
		return "", false
	}
	f(&p.events[i])
	return p.events[i].Task, true
}

// drop removes the first matching event.
func (p *plot) drop(kind history.Kind, ok func(e *history.Event) bool) (string, bool) {
	i := p.find(func(e *history.Event) bool { return e.Kind == kind && ok(e) })
	if i < 0 {
		return "", false
	}
	task := p.events[i].Task
	p.events = slices.Delete(p.events, i, i+1)
	return task, true
}

// offer returns the offer of a task; a zero event for an aggregated one.
func (p *plot) offer(task string) history.Event {
	if i := p.of(history.Offered, task); len(i) > 0 {
		return p.events[i[0]]
	}
	return history.Event{}
}

// rerun adds a run of a task some time after one of its events.
func (p *plot) rerun(after *history.Event, wait time.Duration, retried int) (string, bool) {
	e := *p.first(history.Started, after.Task)
	e.At, e.Retried, e.Process, e.Run = after.At+int64(wait), retried, "w9", "again"
	p.events = append(p.events, e)
	return e.Task, true
}

// state matches outcomes of a state.
func state(want string) func(e *history.Event) bool {
	return func(e *history.Event) bool { return e.State == want }
}

func any1(*history.Event) bool { return true }

// planted lists changes of a valid history without faults. Each returns the task that the violation
// must name, and whether the history was suitable.
var planted = []struct {
	name  string
	kind  Kind
	plant func(p *plot) (task string, ok bool)
}{
	{"a completed task is not there", NotKept, func(p *plot) (string, bool) { return p.drop(history.Outcome, state("completed")) }},
	{"an archived task is not there", Lost, func(p *plot) (string, bool) { return p.drop(history.Outcome, state("archived")) }},
	{"the end of the run of a task that is gone is missing", Lost, func(p *plot) (string, bool) {
		return p.drop(history.Finished, func(e *history.Event) bool {
			return e.Err == "" && p.offer(e.Task).Task != "" && len(p.of(history.Outcome, e.Task)) == 0
		})
	}},
	{"the end of the run of a completed task is missing", NoSuccess, func(p *plot) (string, bool) {
		return p.drop(history.Finished, func(e *history.Event) bool { return e.Err == "" && p.offer(e.Task).Retention > 0 })
	}},
	{"the end of the run of an aggregated task is missing", Lost, func(p *plot) (string, bool) {
		return p.drop(history.Finished, func(e *history.Event) bool { return e.Err == "" && p.offer(e.Task).Task == "" })
	}},
	{"all runs of a task are missing", Lost, func(p *plot) (string, bool) {
		i := p.find(func(e *history.Event) bool {
			return e.Kind == history.Started && p.offer(e.Task).Task != "" && len(p.of(history.Outcome, e.Task)) == 0
		})
		if i < 0 {
			return "", false
		}
		task := p.events[i].Task
		p.events = slices.DeleteFunc(p.events, func(e history.Event) bool {
			return e.Task == task && (e.Kind == history.Started || e.Kind == history.Finished)
		})
		return task, true
	}},
	{"an accepted task never appears", Lost, func(p *plot) (string, bool) {
		p.events = append(p.events, history.Event{At: 1e18, Kind: history.Offered, Task: "new", Queue: "q0"},
			history.Event{At: 1e18 + 1, Kind: history.Accepted, Task: "new", Queue: "q0"})
		return "new", true
	}},
	{"a task without an answer runs and is gone", Lost, func(p *plot) (string, bool) {
		p.events = append(p.events, history.Event{At: 1e18, Kind: history.Offered, Task: "new", Queue: "q0"},
			history.Event{At: 1e18 + 9, Kind: history.Started, Task: "new", Queue: "q0", Run: "new"})
		return "new", true
	}},
	{"an unknown task runs and is gone", Lost, func(p *plot) (string, bool) {
		p.events = append(p.events, history.Event{At: 1e18, Kind: history.Offered, Task: "new", Queue: "q0"},
			history.Event{At: 1e18 + 5, Kind: history.Unknown, Task: "new", Queue: "q0"},
			history.Event{At: 1e18 + 9, Kind: history.Started, Task: "new", Queue: "q0", Run: "new"})
		return "new", true
	}},
	{"an unknown task waits", NotDone, func(p *plot) (string, bool) {
		p.events = append(p.events, history.Event{At: 1e18, Kind: history.Offered, Task: "new", Queue: "q0"},
			history.Event{At: 1e18 + 5, Kind: history.Unknown, Task: "new", Queue: "q0"},
			history.Event{At: 2e18, Kind: history.Outcome, Task: "new", Queue: "q0", State: "pending"})
		return "new", true
	}},
	{"a group hands over one member less", Lost, func(p *plot) (string, bool) {
		var member string
		_, ok := p.change(history.Started, func(e *history.Event) bool { return len(e.Members) > 1 }, func(e *history.Event) {
			member, e.Members = e.Members[0], e.Members[1:]
		})
		return member, ok
	}},
	{"the only success of a kept task was a failure", NoSuccess, func(p *plot) (string, bool) {
		return p.change(history.Finished, func(e *history.Event) bool { return e.Err == "" && p.offer(e.Task).Retention > 0 },
			func(e *history.Event) { e.Err = "planted" })
	}},
	{"a completed task is active", NotDone, func(p *plot) (string, bool) {
		return p.change(history.Outcome, state("completed"), func(e *history.Event) { e.State = "active" })
	}},
	{"a completed task is pending", NotDone, func(p *plot) (string, bool) {
		return p.change(history.Outcome, state("completed"), func(e *history.Event) { e.State = "pending" })
	}},
	{"an archived task is to be retried", NotDone, func(p *plot) (string, bool) {
		return p.change(history.Outcome, state("archived"), func(e *history.Event) { e.State = "retry" })
	}},
	{"an archived task is in a state of no name", NotDone, func(p *plot) (string, bool) {
		return p.change(history.Outcome, state("archived"), func(e *history.Event) { e.State = "" })
	}},
	{"a member is left in its group", NotDone, func(p *plot) (string, bool) {
		i := p.find(func(e *history.Event) bool { return e.Kind == history.Offered && e.Group != "" })
		if i < 0 {
			return "", false
		}
		o := p.events[i]
		p.events = append(p.events, history.Event{At: 2e18, Kind: history.Outcome, Task: o.Task, Queue: o.Queue, State: "aggregating"})
		return o.Task, true
	}},
	{"an archived task is completed", NoSuccess, func(p *plot) (string, bool) {
		return p.change(history.Outcome, state("archived"), func(e *history.Event) { e.State = "completed" })
	}},
	{"a completed task is archived", ArchivedWrong, func(p *plot) (string, bool) {
		return p.change(history.Outcome, func(e *history.Event) bool { return e.State == "completed" && p.offer(e.Task).MaxRetry == e.Retried },
			func(e *history.Event) { e.State = "archived" })
	}},
	{"a completed task is archived before its attempts are used up", ArchivedEarly, func(p *plot) (string, bool) {
		return p.change(history.Outcome, func(e *history.Event) bool { return e.State == "completed" && p.offer(e.Task).MaxRetry > e.Retried },
			func(e *history.Event) { e.State = "archived" })
	}},
	{"archived one attempt early", ArchivedEarly, func(p *plot) (string, bool) {
		return p.change(history.Outcome, func(e *history.Event) bool { return e.State == "archived" && e.Retried > 0 },
			func(e *history.Event) { e.Retried-- })
	}},
	{"archived without its last run", ArchivedWrong, func(p *plot) (string, bool) {
		i := p.find(func(e *history.Event) bool { return e.Kind == history.Outcome && e.State == "archived" })
		if i < 0 {
			return "", false
		}
		o := p.events[i]
		p.events = slices.DeleteFunc(p.events, func(e history.Event) bool {
			return e.Task == o.Task && e.Kind == history.Started && e.Retried == o.Retried
		})
		return o.Task, true
	}},
	{"archived while its last run goes on", ArchivedWrong, func(p *plot) (string, bool) {
		i := p.find(func(e *history.Event) bool { return e.Kind == history.Outcome && e.State == "archived" })
		if i < 0 {
			return "", false
		}
		ends := p.of(history.Finished, p.events[i].Task)
		task, last := p.events[i].Task, ends[len(ends)-1]
		p.events = slices.Delete(p.events, last, last+1)
		return task, true
	}},
	{"a second run after a success", Duplicate, func(p *plot) (string, bool) {
		i := p.find(func(e *history.Event) bool { return e.Kind == history.Finished && e.Err == "" })
		return p.rerun(&p.events[i], time.Second, p.events[i].Retried)
	}},
	{"a second run right after a success", Duplicate, func(p *plot) (string, bool) {
		i := p.find(func(e *history.Event) bool { return e.Kind == history.Finished && e.Err == "" })
		return p.rerun(&p.events[i], 1, p.events[i].Retried)
	}},
	{"a failure that was a success", Duplicate, func(p *plot) (string, bool) {
		return p.change(history.Finished, func(e *history.Event) bool {
			return e.Err != "" && len(p.of(history.Started, e.Task)) > 1
		}, func(e *history.Event) { e.Err = "" })
	}},
	{"a second run during the first", Overlap, func(p *plot) (string, bool) {
		i := p.find(func(e *history.Event) bool { return e.Kind == history.Started })
		return p.rerun(&p.events[i], 1, p.events[i].Retried)
	}},
	{"a run after one that was not seen to end", Overlap, func(p *plot) (string, bool) {
		return p.drop(history.Finished, func(e *history.Event) bool {
			return e.Err != "" && len(p.of(history.Finished, e.Task)) > 1 && p.first(history.Finished, e.Task).Run == e.Run
		})
	}},
	{"a run after the archive", AfterArchive, func(p *plot) (string, bool) {
		i := p.find(func(e *history.Event) bool { return e.Kind == history.Outcome && e.State == "archived" })
		if i < 0 {
			return "", false
		}
		ends := p.of(history.Finished, p.events[i].Task)
		return p.rerun(&p.events[ends[len(ends)-1]], time.Second, p.events[i].Retried)
	}},
	{"Retried jumps", Jump, func(p *plot) (string, bool) {
		return p.change(history.Started, func(e *history.Event) bool { return e.Retried == 1 && e.MaxRetry > 1 }, func(e *history.Event) { e.Retried = 2 })
	}},
	{"Retried goes back", Jump, func(p *plot) (string, bool) {
		return p.change(history.Started, func(e *history.Event) bool { return e.Retried == 2 }, func(e *history.Event) { e.Retried = 0 })
	}},
	{"a failure is not counted", NotCounted, func(p *plot) (string, bool) {
		return p.change(history.Started, func(e *history.Event) bool { return e.Retried == 1 }, func(e *history.Event) { e.Retried = 0 })
	}},
	{"the first run has a retry used", Jump, func(p *plot) (string, bool) {
		return p.change(history.Started, func(e *history.Event) bool { return e.Retried == 0 && e.MaxRetry > 0 }, func(e *history.Event) { e.Retried = 1 })
	}},
	{"the first run of an aggregated task has a retry used", Jump, func(p *plot) (string, bool) {
		return p.change(history.Started, func(e *history.Event) bool { return len(e.Members) > 0 }, func(e *history.Event) { e.Retried = 1 })
	}},
	{"the first run has a negative number of retries", Jump, func(p *plot) (string, bool) {
		return p.change(history.Started, any1, func(e *history.Event) { e.Retried = -1 })
	}},
	{"completed with a retry more than it ran with", Jump, func(p *plot) (string, bool) {
		return p.change(history.Outcome, state("completed"), func(e *history.Event) { e.Retried++ })
	}},
	{"more retries than it has", TooManyRetries, func(p *plot) (string, bool) {
		return p.change(history.Offered, func(e *history.Event) bool { return len(p.of(history.Started, e.Task)) > 1 }, func(e *history.Event) { e.MaxRetry = 0 })
	}},
	{"a lease is lost without a cause", LeaseLost, func(p *plot) (string, bool) {
		i := p.find(func(e *history.Event) bool { return e.Kind == history.Started })
		e := p.events[i]
		p.events = append(p.events, history.Event{At: e.At + 1, Kind: history.Lost, Process: e.Process, Task: e.Task, Queue: e.Queue, Run: e.Run})
		return e.Task, true
	}},
	{"a plan that can only fail succeeds", AgainstPlan, func(p *plot) (string, bool) {
		return p.change(history.Offered, func(e *history.Event) bool {
			return len(e.Plan) > 0 && e.Plan[0] == history.Succeed && len(p.of(history.Started, e.Task)) > 0
		},
			func(e *history.Event) { e.Plan = []string{history.Fail, history.Panic, history.Goexit} })
	}},
	{"a task starts early", Early, func(p *plot) (string, bool) {
		return p.change(history.Offered, func(e *history.Event) bool {
			return e.Delay > 0 && e.Group == "" && len(p.of(history.Started, e.Task)) > 0
		},
			func(e *history.Event) { e.Delay = time.Duration(p.first(history.Started, e.Task).At-e.At) + 1 })
	}},
	{"a member of a group starts early", Early, func(p *plot) (string, bool) {
		return p.change(history.Offered, func(e *history.Event) bool { return e.Group != "" }, func(e *history.Event) { e.Delay = time.Hour })
	}},
	{"a refused task runs", RefusedThere, func(p *plot) (string, bool) {
		return p.change(history.Accepted, func(e *history.Event) bool { return len(p.of(history.Started, e.Task)) > 0 },
			func(e *history.Event) { e.Kind = history.Refused })
	}},
	{"a refused task is there", RefusedThere, func(p *plot) (string, bool) {
		i := p.find(func(e *history.Event) bool { return e.Kind == history.Refused })
		if i < 0 {
			return "", false
		}
		e := p.events[i]
		p.events = append(p.events, history.Event{At: 2e18, Kind: history.Outcome, Task: e.Task, Queue: e.Queue, State: "archived"})
		return e.Task, true
	}},
	{"a refused task is aggregated", RefusedThere, func(p *plot) (string, bool) {
		return p.change(history.Accepted, func(e *history.Event) bool { return p.offer(e.Task).Group != "" },
			func(e *history.Event) { e.Kind = history.Refused })
	}},
	{"a task is found twice", TwoPlaces, func(p *plot) (string, bool) {
		i := p.find(func(e *history.Event) bool { return e.Kind == history.Outcome })
		p.events = append(p.events, p.events[i])
		return p.events[i].Task, true
	}},
	{"a task is found in another queue", Stranger, func(p *plot) (string, bool) {
		return p.change(history.Outcome, any1, func(e *history.Event) { e.Queue = "q9" })
	}},
	{"a task runs in another queue", Stranger, func(p *plot) (string, bool) {
		return p.change(history.Started, func(e *history.Event) bool { return len(e.Members) == 0 }, func(e *history.Event) { e.Queue = "q9" })
	}},
	{"a task runs that nobody offered", Stranger, func(p *plot) (string, bool) {
		p.events = append(p.events, history.Event{At: 1e18, Kind: history.Started, Task: "new", Queue: "q0", Run: "new"})
		return "new", true
	}},
	{"a task is there that nobody offered", Stranger, func(p *plot) (string, bool) {
		p.events = append(p.events, history.Event{At: 2e18, Kind: history.Outcome, Task: "new", Queue: "q0", State: "archived"})
		return "new", true
	}},
	{"a member is in two aggregated tasks", TwiceInGroups, func(p *plot) (string, bool) {
		i := p.find(func(e *history.Event) bool { return len(e.Members) > 0 })
		if i < 0 {
			return "", false
		}
		e := p.events[i]
		e.Task, e.Run = "new", "new"
		p.events = append(p.events, e)
		return e.Members[0], true
	}},
	{"a member runs by itself", MemberRan, func(p *plot) (string, bool) {
		i := p.find(func(e *history.Event) bool { return len(e.Members) > 0 })
		if i < 0 {
			return "", false
		}
		e := p.events[i]
		e.Task, e.Run, e.Members = e.Members[0], "new", nil
		p.events = append(p.events, e)
		return e.Task, true
	}},
	{"a unique task comes while another runs", Unique, func(p *plot) (string, bool) {
		i := p.find(func(e *history.Event) bool {
			return e.Kind == history.Offered && e.UniqueKey != "" && len(p.of(history.Accepted, e.Task)) > 0 && len(p.of(history.Started, e.Task)) > 0
		})
		if i < 0 {
			return "", false
		}
		o, s := p.events[i], p.first(history.Started, p.events[i].Task)
		o.Task, o.At = "new", s.At+1
		p.events = append(p.events, o, history.Event{At: s.At + 2, Kind: history.Accepted, Task: "new", Queue: o.Queue})
		return "new", true
	}},
	{"a unique task comes while another waits for its retry", Unique, func(p *plot) (string, bool) {
		i := p.find(func(e *history.Event) bool {
			return e.Kind == history.Offered && e.UniqueKey != "" && len(p.of(history.Started, e.Task)) > 1
		})
		if i < 0 {
			return "", false
		}
		o, f := p.events[i], p.first(history.Finished, p.events[i].Task)
		o.Task, o.At = "new", f.At+1
		p.events = append(p.events, o, history.Event{At: f.At + 2, Kind: history.Accepted, Task: "new", Queue: o.Queue})
		return "new", true
	}},
	{"one processed too many", Statistics, func(p *plot) (string, bool) {
		return p.change(history.Queue, any1, func(e *history.Event) { e.Processed++ })
	}},
	{"one processed too few", Statistics, func(p *plot) (string, bool) {
		return p.change(history.Queue, any1, func(e *history.Event) { e.Processed-- })
	}},
	{"one failure too many", Statistics, func(p *plot) (string, bool) {
		return p.change(history.Queue, any1, func(e *history.Event) { e.Failures++ })
	}},
	{"one failure too few", Statistics, func(p *plot) (string, bool) {
		return p.change(history.Queue, any1, func(e *history.Event) { e.Failures-- })
	}},
	{"the diagnosis finds something", Invariant, func(p *plot) (string, bool) {
		p.events = append(p.events, history.Event{At: 2e18, Kind: history.Finding, Task: "t1", Queue: "q0", Err: "a lock without a task"})
		return "t1", true
	}},
}

// TestCheckFindsPlantedViolations verifies that each planted violation is found by its rule.
func TestCheckFindsPlantedViolations(t *testing.T) {
	t.Parallel()
	const seeds = 8
	var valid [seeds][]history.Event
	for seed := range valid {
		valid[seed] = simulate(uint64(seed)+500, simOptions{tasks: 120, calm: true})
	}
	rules := simRules
	rules.Examples = 1000
	for _, tt := range planted {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			applied := 0
			for _, events := range valid {
				p := &plot{events: slices.Clone(events)}
				task, ok := tt.plant(p)
				if !ok {
					continue
				}
				applied++
				r := Check(p.events, rules)
				found := r.Violations[tt.kind]
				if found == nil || !slices.ContainsFunc(found.Examples, func(v Violation) bool { return v.Task == task && v.Because != "" && len(v.Events) > 0 }) {
					t.Fatalf("no violation %q of task %q:\n%s", tt.kind, task, r)
				}
			}
			if applied == 0 {
				t.Fatal("no history has what this takes")
			}
		})
	}
}
