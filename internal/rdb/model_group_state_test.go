package rdb_test

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
)

// modelSet is an aggregation set. Its tasks name it.
type modelSet struct {
	key, group string
	at         moment // when it falls back
}

// gather puts a task into its group. An aggregator is to look at it.
func (q *modelQueue) gather(t *modelTask, now int64) {
	q.move(t, wire.StateAggregating, now)
	q.due[t.group] = &moment{unix: now}
}

// waiting returns the tasks that wait in a group, in the order of their times.
func (q *modelQueue) waiting(group string) []*modelTask {
	return slices.DeleteFunc(q.in(wire.StateAggregating), func(t *modelTask) bool { return t.set != "" || t.group != group })
}

// staged returns the tasks of an aggregation set.
func (q *modelQueue) staged(key string) []*modelTask {
	return slices.DeleteFunc(q.in(wire.StateAggregating), func(t *modelTask) bool { return t.set != key })
}

// groups are the names of the groups in which tasks wait, sorted, with how many these are.
func (q *modelQueue) groups() []rdb.Group {
	sizes := make(map[string]int)
	for _, t := range q.in(wire.StateAggregating) {
		if t.set == "" {
			sizes[t.group]++
		}
	}
	var groups []rdb.Group
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		groups = append(groups, rdb.Group{Name: name, Size: sizes[name]})
	}
	return groups
}

// stagePlan is what one call of Stage does.
type stagePlan struct {
	sets   [][]*modelTask
	looked map[string]*moment // the groups that are looked at, and when they are to be looked at again; nil = never
}

// planStage tells what a call of Stage does at a time.
func (q *modelQueue) planStage(rule rdb.GroupRule, now int64) *stagePlan {
	plan := &stagePlan{looked: make(map[string]*moment)}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(q.due)), func(name string) bool { return q.due[name].unix > now })
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(q.due[a].unix, q.due[b].unix) })
	for _, name := range names {
		plan.looked[name] = nil
		for rest := q.waiting(name); len(rest) > 0; {
			at, n := rest[len(rest)-1].at.unix+wholeSeconds(rule.Grace)+1, len(rest)
			if rule.MaxDelay > 0 {
				at = min(at, rest[0].at.unix+wholeSeconds(rule.MaxDelay)+1)
			}
			if rule.MaxSize > 0 && n >= rule.MaxSize {
				at, n = now, rule.MaxSize
			}
			if at > now {
				plan.looked[name] = &moment{unix: at, exact: true}
				break
			}
			plan.sets, rest = append(plan.sets, rest[:n]), rest[n:]
		}
	}
	return plan
}

func wholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// stage carries a plan out, with the keys that the broker has chosen.
func (q *modelQueue) stage(plan *stagePlan, keys []string, now int64) {
	for name, at := range plan.looked {
		if at == nil {
			delete(q.due, name)
		} else {
			q.due[name] = at
		}
	}
	for i, tasks := range plan.sets {
		q.sets[keys[i]] = &modelSet{key: keys[i], group: tasks[0].group, at: moment{unix: now + 120}}
		for _, t := range tasks {
			t.set = keys[i]
		}
	}
}

// regroup dissolves a set. Its tasks keep their times.
func (q *modelQueue) regroup(key string, now int64) {
	set := q.sets[key]
	if set == nil {
		return
	}
	for _, t := range q.staged(key) {
		t.set = ""
		q.due[set.group] = &moment{unix: now}
	}
	delete(q.sets, key)
}

// sweepGroups has those groups looked at now that would be later than the rule allows.
func (q *modelQueue) sweepGroups(rule rdb.GroupRule, now int64) {
	within := rule.Grace
	if rule.MaxDelay > 0 {
		within = min(within, rule.MaxDelay)
	}
	for _, g := range q.groups() {
		at := q.due[g.Name]
		if at == nil || at.unix > now+wholeSeconds(within)+1 || rule.MaxSize > 0 && at.unix > now && g.Size >= rule.MaxSize {
			q.due[g.Name] = &moment{unix: now}
		}
	}
}

// handOver puts tasks in the place of sets, in one call: it decides about all before it changes anything.
func (q *modelQueue) handOver(items []*rdb.HandOver, now int64) []rdb.Code {
	codes := make([]rdb.Code, len(items))
	ids, locks := make(map[string]bool), make(map[string]string) // of the tasks that the call makes
	for i, h := range items {
		n := h.Task
		holder, locked := q.locks[n.Lock]
		if maker, made := locks[n.Lock]; made {
			holder, locked = maker, true
		} else if locked && q.tasks[holder].set == h.Set.Key {
			locked = false // it goes with the set
		}
		switch {
		case q.sets[h.Set.Key] == nil:
			codes[i] = rdb.CodeLost
		case locked && holder != n.ID:
			codes[i] = rdb.CodeDuplicate
		case ids[n.ID] || q.tasks[n.ID] != nil:
			codes[i] = rdb.CodeConflict
		default:
			ids[n.ID] = true
			if n.Lock != "" {
				locks[n.Lock] = n.ID
			}
		}
	}
	for i, h := range items {
		if codes[i] == rdb.CodeOK {
			for _, t := range q.staged(h.Set.Key) {
				q.remove(t, now)
			}
			delete(q.sets, h.Set.Key)
		}
	}
	for i, h := range items {
		if codes[i] == rdb.CodeOK {
			_ = q.create(&h.Task, now) // it was decided above that this can be done
		}
	}
	return codes
}

// setAside puts a task of a set into the archive.
func (q *modelQueue) setAside(key, id string, now int64) {
	if t := q.tasks[id]; t != nil && t.set == key {
		q.move(t, wire.StateArchived, now)
		q.trim(len(q.tasks), now)
	}
}

// placeOf is the key that a task is in that is to be aggregated.
func (q *modelQueue) placeOf(t *modelTask) string {
	if t.set != "" {
		return t.set
	}
	return q.keys.Group(t.group)
}
