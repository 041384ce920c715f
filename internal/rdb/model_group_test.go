package rdb_test

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/asynq-go/asynq/internal/rdb"
)

// modelAges are for how many seconds tasks have waited in their groups: about as long as the rules
// say, on either side.
var modelAges = []int64{0, 30, 59, 60, 61, 600, 601, 3600, 3601, 4000}

func pickRule(t *rapid.T) rdb.GroupRule {
	return rdb.GroupRule{
		Grace:    pick(t, "grace", time.Minute, time.Minute, time.Hour, 59500*time.Millisecond),
		MaxDelay: pick(t, "max delay", 0, 0, 10*time.Minute),
		MaxSize:  pick(t, "max size", 0, 0, 0, 1, 2, 3),
	}
}

// stage takes tasks of groups into sets.
func (m *machine) stage(t *rapid.T) {
	q, rule := m.pickQueue(t), pickRule(t)
	before := q.planStage(rule, m.model.now)
	sets, next, err := m.broker.Stage(m.ctx, q.keys.Name, rule)
	if err != nil {
		t.Fatal(err)
	}
	var got, keys []string
	for _, s := range sets {
		name, ok := strings.CutPrefix(s.Key, q.keys.Group(s.Group)+":")
		if !ok || name == "" || strings.Contains(name, ":") || q.sets[s.Key] != nil || s.Queue != q.keys.Name {
			t.Errorf("staged %+v", s)
		}
		tasks, err := m.client.ZRange(m.ctx, s.Key, 0, -1).Result()
		if err != nil || len(tasks) != s.Size {
			t.Errorf("of %d staged tasks there are %d, error %v", s.Size, len(tasks), err)
		}
		got, keys = append(got, s.Group+": "+strings.Join(tasks, " ")), append(keys, s.Key)
	}
	// A second may have begun since, so that more groups are due.
	plans := []*stagePlan{before}
	for at := m.model.now + 1; at <= time.Now().Unix(); at++ {
		plans = append(plans, q.planStage(rule, at))
	}
	for i, plan := range plans {
		if want := plan.describe(); slices.Equal(want, got) || i == len(plans)-1 {
			if expect(t, "stage", want, got); t.Failed() {
				return
			}
			q.stage(plan, keys, m.model.now)
			break
		}
	}
	want := time.Duration(-1)
	for _, at := range q.due {
		if in := max(0, time.Duration(at.unix-m.model.now)*time.Second); want < 0 || in < want {
			want = in
		}
	}
	if (next < 0) != (want < 0) || (next-want).Abs() > slack*time.Second {
		t.Errorf("stage: the next group is due in %v, want %v", next, want)
	}
	for _, s := range sets {
		m.sets = append(m.sets, *s)
	}
}

// describe returns the sets of a plan with their tasks, as text.
func (plan *stagePlan) describe() (sets []string) {
	for _, tasks := range plan.sets {
		sets = append(sets, tasks[0].group+": "+strings.Join(taskIDs(tasks), " "))
	}
	return sets
}

func taskIDs(tasks []*modelTask) []string {
	ids := make([]string, len(tasks))
	for i, t := range tasks {
		ids[i] = t.id
	}
	return ids
}

// pickSet draws a set of a queue, mostly one that is still there, or nil.
func (m *machine) pickSet(t *rapid.T, q *modelQueue) *rdb.StagedSet {
	var alive, all []rdb.StagedSet
	for _, s := range m.sets {
		if s.Queue == q.keys.Name {
			all = append(all, s)
			if q.sets[s.Key] != nil {
				alive = append(alive, s)
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	if len(alive) > 0 && !oneIn(t, 8, "any set") {
		all = alive
	}
	set := pick(t, "set", recent(all)...)
	return &set
}

// pickSets draws up to four sets, each once.
func (m *machine) pickSets(t *rapid.T, q *modelQueue) (sets []*rdb.StagedSet) {
	for range pick(t, "sets", 1, 2, 3, 4) {
		if s := m.pickSet(t, q); s != nil && !slices.ContainsFunc(sets, func(o *rdb.StagedSet) bool { return o.Key == s.Key }) {
			sets = append(sets, s)
		}
	}
	return sets
}

// pickGroupQueue draws a queue, mostly one that has sets.
func (m *machine) pickGroupQueue(t *rapid.T) *modelQueue {
	q := m.pickQueue(t)
	if len(q.sets) == 0 {
		for _, other := range m.model.queues {
			if len(other.sets) > 0 {
				return other
			}
		}
	}
	return q
}

// commit replaces sets by tasks.
func (m *machine) commit(t *rapid.T) {
	q := m.pickGroupQueue(t)
	var items []*rdb.Aggregation
	for _, set := range m.pickSets(t, q) {
		n := m.pickNewTask(t)
		if n.Queue != q.keys.Name {
			n = &rdb.NewTask{Queue: q.keys.Name, ID: m.newName("sum")}
			n.Message = m.newMessage(t, q, n.ID)
		}
		switch tasks := q.staged(set.Key); {
		case len(tasks) > 0 && oneIn(t, 2, "lock of one of them"):
			for _, task := range tasks {
				if task.lock != "" {
					n.Lock, n.LockTTL = task.lock, 3600
				}
			}
			if oneIn(t, 3, "taken ID") {
				n.ID = pick(t, "id", q.ids()...)
			}
		case len(tasks) > 0 && oneIn(t, 8, "ID of one of them"):
			n.ID = tasks[0].id
		}
		n.Message = m.newMessage(t, q, n.ID)
		items = append(items, &rdb.Aggregation{Set: set, Task: *n})
	}
	b := m.anyBroker(t)
	b.CommitAggregations(m.ctx, q.keys.Name, items)
	codes := q.commit(items, m.model.now)
	if b == m.again {
		codes = q.commit(items, m.model.now)
	}
	for i, h := range items {
		if h.Err != nil || h.Code != codes[i] {
			t.Errorf("commit of %s as %q: code %d, want %d, error %v", h.Set.Key, h.Task.ID, h.Code, codes[i], h.Err)
		}
	}
}

// returnToGroup returns sets to their groups.
func (m *machine) returnToGroup(t *rapid.T) {
	q := m.pickGroupQueue(t)
	if oneIn(t, 2, "own") {
		sets := m.pickSets(t, q)
		if err := m.anyBroker(t).ReturnToGroup(m.ctx, q.keys.Name, sets); err != nil {
			t.Error(err)
		}
		for _, s := range sets {
			q.returnToGroup(s.Key, m.model.now)
		}
		return
	}
	for key, set := range q.sets {
		if set.at.unix <= m.model.now {
			q.returnToGroup(key, m.model.now)
		}
	}
	if more, err := m.anyBroker(t).ReturnExpiredSets(m.ctx, q.keys.Name); err != nil || more {
		t.Errorf("returnToGroup: more: %v, error %v", more, err)
	}
}

// useSets reads sets, keeps them, and takes tasks out of them.
func (m *machine) useSets(t *rapid.T) {
	q := m.pickGroupQueue(t)
	sets := m.pickSets(t, q)
	b := m.anyBroker(t)
	switch pick(t, "what", "read", "extend", "set aside", "purge") {
	case "read":
		b.ReadSets(m.ctx, q.keys.Name, sets)
		for _, s := range sets {
			var want []rdb.StagedTask
			for _, task := range q.staged(s.Key) {
				want = append(want, rdb.StagedTask{ID: task.id, Message: []byte(task.message)})
			}
			expect(t, "tasks of a set", want, s.Tasks)
			if s.Err != nil || s.Size != len(want) {
				t.Errorf("of %d tasks of a set %d are read, error %v", len(want), s.Size, s.Err)
			}
		}
	case "extend":
		var keys []string
		for _, s := range sets {
			keys = append(keys, s.Key)
			if set := q.sets[s.Key]; set != nil {
				set.at = moment{unix: m.model.now + 120}
			}
		}
		if err := b.ExtendSets(m.ctx, q.keys.Name, keys); err != nil {
			t.Error(err)
		}
	case "set aside":
		for _, s := range sets[:min(1, len(sets))] {
			id := pick(t, "id", append(q.ids(), "none")...)
			if tasks := taskIDs(q.staged(s.Key)); len(tasks) > 0 && !oneIn(t, 8, "any task") {
				id = pick(t, "id", tasks...)
			}
			if oneIn(t, 3, "fell back") {
				if err := b.ReturnToGroup(m.ctx, q.keys.Name, []*rdb.StagedSet{s}); err != nil {
					t.Error(err)
				}
				q.returnToGroup(s.Key, m.model.now)
			}
			q.archiveInvalid(s.Key, id, m.model.now)
			if _, err := b.ArchiveInvalid(m.ctx, s, id); err != nil {
				t.Error(err)
			}
		}
	case "purge":
		if more, err := b.PurgeConsumed(m.ctx, q.keys.Name); err != nil || more {
			t.Errorf("purge: more: %v, error %v", more, err)
		}
	}
}

// sweepGroups looks for groups that the index lacks, which other libraries do not write, or has for
// later than a rule allows.
func (m *machine) sweepGroups(t *rapid.T) {
	q, rule := m.pickQueue(t), pickRule(t)
	if oneIn(t, 2, "no index") {
		q.due = map[string]*moment{}
		m.must(t, m.client.Del(m.ctx, q.keys.GroupsDue()))
	}
	if oneIn(t, 2, "time for it") {
		q.swept = false
		m.must(t, m.client.Del(m.ctx, q.keys.GroupsSwept()))
	}
	if !q.swept {
		q.swept = true
		q.sweepGroups(rule, m.model.now)
	}
	if err := m.broker.SweepGroups(m.ctx, q.keys.Name, rule, time.Hour); err != nil {
		t.Error(err)
	}
	// A group whose time came in this very second is due, swept or not.
	for name, at := range q.due {
		if seen := m.client.ZScore(m.ctx, q.keys.GroupsDue(), name).Val(); at.unix == m.model.now && int64(seen) == m.model.now+1 {
			at.unix = m.model.now + 1
		}
	}
}

// passGroupTime lets tasks have waited longer in their groups, and sets be forgotten by their
// holders.
func (m *machine) passGroupTime(t *rapid.T) {
	q := m.pickQueue(t)
	for _, g := range q.groups() {
		for _, task := range q.waiting(g.Name) {
			if !oneIn(t, 3, "not this one") {
				m.moveTime(t, q, task, m.model.now-pick(t, "ago", modelAges...))
			}
		}
		if q.due[g.Name] != nil && !oneIn(t, 4, "nobody looks") {
			q.due[g.Name] = &moment{unix: m.model.now, exact: true}
			m.must(t, m.client.ZAddXX(m.ctx, q.keys.GroupsDue(), redis.Z{Score: float64(m.model.now), Member: g.Name}))
		}
	}
	for _, key := range q.setKeys() {
		if oneIn(t, 2, "stale") {
			set := q.sets[key]
			set.at = moment{unix: m.model.now - pick(t, "since", int64(0), 1, 100), exact: true}
			m.must(t, m.client.ZAddXX(m.ctx, q.keys.AggregationSets(), redis.Z{Score: float64(set.at.unix), Member: key}))
		}
	}
}

// enqueueGrouped makes tasks that wait in groups.
func (m *machine) enqueueGrouped(t *rapid.T) {
	q := m.pickQueue(t)
	var tasks []*rdb.NewTask
	for range rapid.IntRange(1, 4).Draw(t, "tasks") {
		n := &rdb.NewTask{Queue: q.keys.Name, ID: m.newName("member"), Group: pick(t, "group", "g", "g:h")}
		n.Message = m.newMessage(t, q, n.ID)
		if oneIn(t, 2, "unique") {
			n.Lock, n.LockTTL = q.keys.Unique("type", []byte(pick(t, "payload", "x", "y", "z"))), 3600
		}
		tasks = append(tasks, n)
	}
	m.send(t, tasks)
}

// setKeys are the keys of all sets, sorted.
func (q *modelQueue) setKeys() []string { return slices.Sorted(maps.Keys(q.sets)) }
