package main

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"

	"github.com/hibiken/asynq"
)

// option is a call that returns an option; now is the start of the row.
type option struct {
	text string
	make func(now time.Time) asynq.Option
	pair bool // combine it with the others that have this set
}

func fixed(o asynq.Option) func(time.Time) asynq.Option {
	return func(time.Time) asynq.Option { return o }
}

// foreign is an option of a custom type.
type foreign struct {
	kind  asynq.OptionType
	value any
}

func (o foreign) String() string         { return fmt.Sprintf("foreign(%d, %v)", o.kind, o.value) }
func (o foreign) Type() asynq.OptionType { return o.kind }
func (o foreign) Value() any             { return o.value }

// options lists all constructors with usual and unusual values.
func options() (all []option) {
	one := func(pair bool, text string, o asynq.Option) { all = append(all, option{text, fixed(o), pair}) }
	at := func(pair bool, text string, f func(now time.Time) asynq.Option) {
		all = append(all, option{text, f, pair})
	}

	one(true, "nil", nil)
	for _, n := range []int{3, 0, -1, 25, math.MaxInt32, math.MaxInt32 + 1, math.MinInt64} {
		one(n == 3 || n == -1, fmt.Sprintf("MaxRetry(%d)", n), asynq.MaxRetry(n))
	}
	for _, name := range []string{"low", "", " ", "default", "Low", "a:b", "}x", "{x}", "*", "schlüssel", "a b", " x ", strings.Repeat("q", 300)} {
		one(name == "low" || name == "", fmt.Sprintf("Queue(%.20q)", name), asynq.Queue(name))
	}
	for _, d := range []time.Duration{time.Minute, 0, -1, -time.Second, 1, 500 * time.Millisecond, 1500 * time.Millisecond, math.MaxInt64} {
		one(d == time.Minute || d == 0, fmt.Sprintf("Timeout(%v)", d), asynq.Timeout(d))
	}
	at(true, "Deadline(in an hour)", func(now time.Time) asynq.Option { return asynq.Deadline(now.Add(time.Hour)) })
	at(false, "Deadline(an hour ago)", func(now time.Time) asynq.Option { return asynq.Deadline(now.Add(-time.Hour)) })
	one(true, "Deadline(zero)", asynq.Deadline(time.Time{}))
	one(false, "Deadline(epoch)", asynq.Deadline(time.Unix(0, 0)))
	one(false, "Deadline(1969)", asynq.Deadline(time.Date(1969, 1, 1, 0, 0, 0, 0, time.UTC)))
	one(false, "Deadline(2400)", asynq.Deadline(time.Date(2400, 1, 1, 0, 0, 0, 500_000_000, time.UTC)))
	for _, d := range []time.Duration{time.Hour, 0, -time.Second, 1, 500 * time.Millisecond, time.Second, 1500 * time.Millisecond, math.MaxInt64} {
		one(d == time.Hour || d == 0, fmt.Sprintf("Unique(%v)", d), asynq.Unique(d))
	}
	at(true, "ProcessAt(in an hour)", func(now time.Time) asynq.Option { return asynq.ProcessAt(now.Add(time.Hour)) })
	at(true, "ProcessAt(an hour ago)", func(now time.Time) asynq.Option { return asynq.ProcessAt(now.Add(-time.Hour)) })
	one(false, "ProcessAt(zero)", asynq.ProcessAt(time.Time{}))
	one(false, "ProcessAt(epoch)", asynq.ProcessAt(time.Unix(0, 0)))
	one(false, "ProcessAt(2400.5)", asynq.ProcessAt(time.Date(2400, 1, 1, 0, 0, 0, 500_000_000, time.UTC)))
	one(false, "ProcessAt(year 9999)", asynq.ProcessAt(time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)))
	for _, d := range []time.Duration{2 * time.Hour, 0, -time.Hour, math.MaxInt64, math.MinInt64} {
		one(d == 2*time.Hour, fmt.Sprintf("ProcessIn(%v)", d), asynq.ProcessIn(d))
	}
	for _, id := range []string{"id", "", " ", " x ", "a:b", "{x}", "6c0d8a2e-5d5d-4a8e-9d0c-1f6a2b3c4d5e", "ä", strings.Repeat("i", 300)} {
		one(id == "id" || id == "", fmt.Sprintf("TaskID(%.20q)", id), asynq.TaskID(id))
	}
	for _, d := range []time.Duration{time.Hour, 0, -time.Second, 1, 500 * time.Millisecond, 1500 * time.Millisecond, math.MaxInt64} {
		one(d == time.Hour, fmt.Sprintf("Retention(%v)", d), asynq.Retention(d))
	}
	for _, name := range []string{"g", "", " ", " x ", "a:b", "}g", "ä"} {
		one(name == "g" || name == "", fmt.Sprintf("Group(%q)", name), asynq.Group(name))
	}
	one(false, `an option of another type(QueueOpt, "low")`, foreign{asynq.QueueOpt, "low"})
	one(false, `an option of another type(MaxRetryOpt, 3)`, foreign{asynq.MaxRetryOpt, 3})
	one(false, `an option of another type(QueueOpt, nil)`, foreign{asynq.QueueOpt, nil})
	one(false, `an option of another type(QueueOpt, 3)`, foreign{asynq.QueueOpt, 3})
	one(false, `an option of another type(TimeoutOpt, time.Minute)`, foreign{asynq.TimeoutOpt, time.Minute})
	one(false, `an option of another type(UniqueOpt, time.Minute)`, foreign{asynq.UniqueOpt, time.Minute})
	one(false, `an option of another type(ProcessInOpt, time.Minute)`, foreign{asynq.ProcessInOpt, time.Minute})
	one(false, `an option of another type(RetentionOpt, time.Minute)`, foreign{asynq.RetentionOpt, time.Minute})
	one(false, `an option of another type(TaskIDOpt, "x")`, foreign{asynq.TaskIDOpt, "x"})
	one(false, `an option of another type(GroupOpt, "x")`, foreign{asynq.GroupOpt, "x"})
	at(false, `an option of another type(DeadlineOpt, time)`, func(now time.Time) asynq.Option {
		return foreign{asynq.DeadlineOpt, now.Add(time.Hour)}
	})
	at(false, `an option of another type(ProcessAtOpt, time)`, func(now time.Time) asynq.Option {
		return foreign{asynq.ProcessAtOpt, now.Add(time.Hour)}
	})
	one(false, `an option of another type(99, nil)`, foreign{99, nil})
	return all
}

// addOptionRows adds rows for each option as a value, and for tasks with each option and each pair.
func addOptionRows() {
	all := options()
	for _, o := range all {
		if o.text == "nil" || strings.HasPrefix(o.text, "an option") {
			continue
		}
		add("option "+o.text, func(s *site) {
			s.noDump = true
			a, b := o.make(s.start), o.make(s.start)
			s.see("String", a.String())
			s.see("Type", int(a.Type()))
			s.see("Value", a.Value())
			s.see("type of Value", fmt.Sprintf("%T", a.Value()))
			s.see("%v", fmt.Sprintf("%v", a))
			s.guard("== ", func() { s.see("==", a == b) })
			s.see("DeepEqual", reflect.DeepEqual(a, b))
			s.see("DeepEqual of tasks", reflect.DeepEqual(asynq.NewTask("t", nil, a), asynq.NewTask("t", nil, b)))
			s.guard("map key ", func() { s.see("map key", map[asynq.Option]int{a: 1}[b]) })
		})
	}
	for _, o := range all {
		add("Enqueue(task, "+o.text+")", func(s *site) {
			s.result(s.client().Enqueue(asynq.NewTask("type", []byte("payload")), o.make(s.start)))
		})
		add("Enqueue(NewTask(…, "+o.text+"))", func(s *site) {
			s.result(s.client().Enqueue(asynq.NewTask("type", []byte("payload"), o.make(s.start))))
		})
		if strings.HasPrefix(o.text, "Unique(1") && o.text != "Unique(1h0m0s)" || o.text == "Unique(500ms)" {
			continue // the lock may expire in between
		}
		add("Enqueue(task, "+o.text+") twice", func(s *site) {
			c, task := s.client(), asynq.NewTask("type", []byte("payload"))
			s.at("first")
			s.result(c.Enqueue(task, o.make(s.start)))
			s.at("second")
			s.result(c.Enqueue(task, o.make(s.start)))
		})
	}
	for _, a := range all {
		for _, b := range all {
			if a.pair && b.pair {
				add("Enqueue(task, "+a.text+", "+b.text+")", func(s *site) {
					s.result(s.client().Enqueue(asynq.NewTask("type", []byte("payload")), a.make(s.start), b.make(s.start)))
				})
			}
			name, _, _ := strings.Cut(a.text, "(")
			if a.pair && b.pair && a.text != b.text && strings.HasPrefix(b.text, name) {
				add("Enqueue(NewTask(…, "+a.text+"), "+b.text+")", func(s *site) {
					s.result(s.client().Enqueue(asynq.NewTask("type", []byte("payload"), a.make(s.start)), b.make(s.start)))
				})
			}
		}
	}
	both := func(text string, first, second []asynq.Option) {
		add("Enqueue("+text+")", func(s *site) {
			c := s.client()
			s.at("first")
			s.result(c.Enqueue(asynq.NewTask("type", []byte("payload")), first...))
			s.at("second")
			s.result(c.Enqueue(asynq.NewTask("type", []byte("payload")), second...))
		})
	}
	type list = []asynq.Option
	both("Unique, then Unique of another TTL", list{asynq.Unique(time.Hour)}, list{asynq.Unique(time.Minute)})
	both("Unique, then without", list{asynq.Unique(time.Hour)}, nil)
	both("Unique, then Unique in another queue", list{asynq.Unique(time.Hour)}, list{asynq.Unique(time.Hour), asynq.Queue("low")})
	both("TaskID, then Unique with the same", list{asynq.TaskID("x")}, list{asynq.TaskID("x"), asynq.Unique(time.Hour)})
	both("Unique with TaskID, then both", list{asynq.TaskID("x"), asynq.Unique(time.Hour)}, list{asynq.TaskID("x"), asynq.Unique(time.Hour)})
	both("Unique with TaskID, then another ID", list{asynq.TaskID("x"), asynq.Unique(time.Hour)}, list{asynq.TaskID("y"), asynq.Unique(time.Hour)})
	both("TaskID, then the same in another queue", list{asynq.TaskID("x")}, list{asynq.TaskID("x"), asynq.Queue("low")})
	both("TaskID, then the same scheduled", list{asynq.TaskID("x")}, list{asynq.TaskID("x"), asynq.ProcessIn(time.Hour)})
	both("TaskID scheduled, then the same", list{asynq.TaskID("x"), asynq.ProcessIn(time.Hour)}, list{asynq.TaskID("x")})
	both("TaskID in a group, then the same", list{asynq.TaskID("x"), asynq.Group("g")}, list{asynq.TaskID("x")})
	both("Unique scheduled, then not", list{asynq.Unique(time.Minute), asynq.ProcessIn(time.Hour)}, list{asynq.Unique(time.Minute)})
	both("Unique in a group, then again", list{asynq.Unique(time.Minute), asynq.Group("g")}, list{asynq.Unique(time.Minute), asynq.Group("g")})
	both("two of a group", list{asynq.TaskID("x"), asynq.Group("g")}, list{asynq.TaskID("y"), asynq.Group("g")})
	both("two groups", list{asynq.TaskID("x"), asynq.Group("g")}, list{asynq.TaskID("y"), asynq.Group("h")})
	add("NewTask(…, options) == NewTask(…, options)", func(s *site) {
		s.noDump = true
		newTask := func() *asynq.Task {
			return asynq.NewTask("t", []byte("p"), asynq.Queue("q"), asynq.MaxRetry(3), asynq.Timeout(time.Minute))
		}
		s.see("DeepEqual", reflect.DeepEqual(newTask(), newTask()))
		s.see("DeepEqual of options", reflect.DeepEqual([]asynq.Option{asynq.Queue("a"), asynq.Unique(1)}, []asynq.Option{asynq.Queue("a"), asynq.Unique(1)}))
		s.see("== of others", asynq.Queue("a") == asynq.Queue("b"))
		s.see("== of kinds", asynq.Queue("a") == asynq.Group("a"))
	})
}
