package rdb_test

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/inspect"
	"github.com/asynq-go/asynq/internal/wire"
	"github.com/asynq-go/asynq/x/doctor"
)

// modelStates are all states.
var modelStates = []wire.State{
	wire.StatePending, wire.StateActive, wire.StateScheduled, wire.StateRetry, wire.StateArchived, wire.StateCompleted, wire.StateAggregating,
}

// shown is what an Inspector is shown of a task. Times are unix seconds, 0 where there is none.
type shown struct {
	ID, Queue, Group, Message, Result string
	State                             wire.State
	Orphaned                          bool
	ProcessAt, Since                  int64
}

func showInfo(infos []*inspect.TaskInfo) []shown {
	list := make([]shown, 0, len(infos))
	for _, info := range infos {
		s := shown{ID: info.ID, Queue: info.Queue, Group: info.Group, Result: string(info.Result), State: info.State, Orphaned: info.Orphaned}
		if info.Message != nil {
			encoded, _ := info.Message.Encode() // "" is what no task has
			s.Message = string(encoded)
		}
		s.ProcessAt, s.Since = unixOrNone(info.ProcessAt), unixOrNone(info.Since)
		list = append(list, s)
	}
	return list
}

func unixOrNone(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.Unix()
}

func (q *modelQueue) show(tasks []*modelTask, now int64) []shown {
	list := make([]shown, 0, len(tasks))
	for _, t := range tasks {
		s := shown{ID: t.id, Queue: q.keys.Name, Group: t.group, Message: t.message, Result: t.result, State: t.state}
		switch t.state {
		case wire.StateActive:
			s.Orphaned = t.at.unix < now
		case wire.StateScheduled:
			s.ProcessAt, s.Since = t.at.unix, t.at.unix
		case wire.StateRetry:
			s.ProcessAt = t.at.unix
		case wire.StatePending, wire.StateArchived, wire.StateAggregating:
			s.Since = t.at.unix
		case wire.StateCompleted:
		}
		list = append(list, s)
	}
	return list
}

// inspect lists and counts what there is.
func (m *machine) inspect(t *rapid.T) {
	q := m.pickGroupQueue(t)
	m.inspectStats(t, q)
	state, group := pick(t, "state", modelStates...), pick(t, "group", "g", "g:h")
	if len(q.sets) > 0 && oneIn(t, 2, "aggregating") {
		state = wire.StateAggregating
	}

	all := q.show(q.listed(state, group), m.model.now)
	offset, limit := pick(t, "offset", 0, 0, 1, 2, 5), pick(t, "limit", 30, 1, 2, 3)
	newest := oneIn(t, 2, "newest first")
	infos, err := inspect.New(m.broker).ListTasks(m.ctx, q.keys.Name, state, group, offset, limit, newest)
	if err != nil {
		t.Fatal(err)
	}
	listed := slices.Clone(all)
	if !newest && (state == wire.StateArchived || state == wire.StateCompleted) {
		slices.Reverse(listed)
	}
	from := min(offset, len(listed))
	expect(t, "page", listed[from:min(from+limit, len(listed))], showInfo(infos))

	if state == wire.StateAggregating {
		if oneIn(t, 2, "all groups") {
			group = ""
		}
		all = q.show(slices.DeleteFunc(q.in(state), func(task *modelTask) bool { return group != "" && task.group != group }), m.model.now)
	}
	reverse := oneIn(t, 2, "reverse")
	walk, err := inspect.New(m.broker).Walk(q.keys.Name, state, group, reverse, nil)
	if err != nil {
		t.Fatal(err)
	}
	var met []*inspect.TaskInfo
	n := pick(t, "n", 1, 2, 50)
	for {
		infos, scanned, err := walk.Next(m.ctx, n)
		if err != nil {
			t.Fatal(err)
		}
		if scanned == 0 {
			break
		}
		if scanned > n || len(infos) > scanned || len(met) > len(all) {
			t.Fatalf("a walk scanned %d tasks and returned %d", scanned, len(infos))
		}
		met = append(met, infos...)
	}
	if state == wire.StateAggregating && group == "" {
		slices.SortStableFunc(all, func(a, b shown) int { return compareText(a.Group, b.Group) })
	}
	if reverse {
		slices.Reverse(all)
	}
	expect(t, "walk", all, showInfo(met))
}

func compareText(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func (m *machine) inspectStats(t *rapid.T, q *modelQueue) {
	want := &inspect.QueueStats{
		Archive: m.broker.Archive,
		Sizes:   map[wire.State]int{}, Groups: len(q.groups()), Paused: q.paused, ProcessedTotal: int64(q.processed), FailedTotal: int64(q.failed),
	}
	for _, state := range modelStates {
		want.Sizes[state] = len(q.in(state))
	}
	oldest := int64(0)
	for _, id := range q.pending[:min(10, len(q.pending))] {
		if at := q.tasks[id].at.unix; oldest == 0 || at < oldest {
			oldest = at
		}
	}
	stats, errs := inspect.New(m.broker).Stats(m.ctx, []string{q.keys.Name})
	if errs[0] != nil {
		t.Fatal(errs[0])
	}
	got := stats[0]
	if unixOrNone(got.Oldest) != oldest || got.Now.Unix() < m.model.now-slack || got.ProcessedToday > got.ProcessedTotal || got.FailedToday > got.FailedTotal {
		t.Errorf("stats: %+v, the oldest task is of %d", got, oldest)
	}
	for state, first := range map[wire.State]*time.Time{
		wire.StateScheduled: &got.NextScheduled, wire.StateRetry: &got.NextRetry, wire.StateActive: &got.NextLease,
	} {
		want := int64(0)
		if tasks := q.in(state); len(tasks) > 0 {
			want = tasks[0].at.unix
		}
		if off := unixOrNone(*first) - want; off < -slack || off > slack {
			t.Errorf("the first time of %v is %d, not %d", state, unixOrNone(*first), want)
		}
		*first = time.Time{}
	}
	got.Oldest, got.Now, got.ProcessedToday, got.FailedToday = time.Time{}, time.Time{}, 0, 0 // a test may run past midnight
	expect(t, "stats", want, got)
	groups, err := inspect.New(m.broker).Groups(m.ctx, q.keys.Name)
	if err != nil {
		t.Fatal(err)
	}
	for i := range groups {
		first := m.model.now + slack
		for _, task := range q.in(wire.StateAggregating) {
			if task.set == "" && task.group == groups[i].Name {
				first = min(first, task.at.unix)
			}
		}
		if off := groups[i].Oldest.Unix() - first; off < -slack || off > slack {
			t.Errorf("the first task of group %q is of %v, want %v", groups[i].Name, groups[i].Oldest.Unix(), first)
		}
		groups[i].Oldest = time.Time{}
	}
	expect(t, "groups", q.groups(), groups)
}

// diagnose runs the doctor. It may find only sets whose tasks were all archived as invalid.
func (m *machine) diagnose(t *rapid.T) {
	found := func(repair bool) (keys []string) {
		for f, err := range doctor.Diagnose(m.ctx, asynq.SharedRedisClient(m.client), doctor.Options{Repair: repair}) {
			switch {
			case err != nil:
				t.Fatal(err)
			case f.Kind == doctor.StaleAggregationSet:
				keys = append(keys, f.Detail)
			default:
				t.Errorf("the doctor found: %+v", f)
			}
		}
		slices.Sort(keys)
		return keys
	}
	var want []string
	for _, q := range m.model.queues {
		for _, key := range q.setKeys() {
			if len(q.staged(key)) == 0 {
				want = append(want, key+" has no tasks")
			}
		}
	}
	slices.Sort(want)
	expect(t, "findings", want, found(false))
	if len(want) > 0 {
		return
	}
	before, err1 := takeSnapshot(m.ctx, m.client)
	expect(t, "findings", want, found(true))
	after, err2 := takeSnapshot(m.ctx, m.client)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if !before.equal(after) {
		expect(t, "a repair changed what Redis holds", before, after)
	}
}
