package rdb_test

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/asynq-go/asynq/internal/inspect"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// modelSet is an aggregation set. Its tasks name it.
type modelSet struct {
	key, group string
	at         moment // when its tasks return to the group
}

// gather puts a task into its group, which becomes due.
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

// groups returns the nonempty groups with their sizes, sorted by name.
func (q *modelQueue) groups() []inspect.Group {
	sizes := make(map[string]int)
	for _, t := range q.in(wire.StateAggregating) {
		if t.set == "" {
			sizes[t.group]++
		}
	}
	var groups []inspect.Group
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		groups = append(groups, inspect.Group{Name: name, Size: sizes[name]})
	}
	return groups
}

// stagePlan is what one call of Stage does.
type stagePlan struct {
	sets    [][]*modelTask
	checked map[string]*moment // the checked groups, and when their next check is due; nil = never
}

// planStage returns the plan of a call of Stage at a time.
func (q *modelQueue) planStage(rule rdb.GroupRule, now int64) *stagePlan {
	plan := &stagePlan{checked: make(map[string]*moment)}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(q.due)), func(name string) bool { return q.due[name].unix > now })
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(q.due[a].unix, q.due[b].unix) })
	for _, name := range names {
		plan.checked[name] = nil
		for rest := q.waiting(name); len(rest) > 0; {
			at, n := rest[len(rest)-1].at.unix+wholeSeconds(rule.Grace)+1, len(rest)
			if rule.MaxDelay > 0 {
				at = min(at, rest[0].at.unix+wholeSeconds(rule.MaxDelay)+1)
			}
			if rule.MaxSize > 0 && n >= rule.MaxSize {
				at, n = now, rule.MaxSize
			}
			if at > now {
				plan.checked[name] = &moment{unix: at, exact: true}
				break
			}
			plan.sets, rest = append(plan.sets, rest[:n]), rest[n:]
		}
	}
	return plan
}

func wholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// stage executes a plan with the set keys that the broker chose.
func (q *modelQueue) stage(plan *stagePlan, keys []string, now int64) {
	for name, at := range plan.checked {
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

// returnToGroup dissolves a set. Its tasks return to their group and keep their times.
func (q *modelQueue) returnToGroup(key string, now int64) {
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

// sweepGroups makes those groups due that would be checked later than the rule allows.
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

// commit replaces sets by tasks, in one call: it decides about all before it changes anything.
func (q *modelQueue) commit(items []*rdb.Aggregation, now int64) []script.Code {
	codes := make([]script.Code, len(items))
	ids, locks := make(map[string]bool), make(map[string]string) // of the tasks that the call creates
	for i, h := range items {
		n := h.Task
		holder, locked := q.locks[n.Lock]
		if maker, made := locks[n.Lock]; made {
			holder, locked = maker, true
		} else if locked && q.tasks[holder].set == h.Set.Key {
			locked = false // the commit releases it with the set
		}
		switch {
		case q.sets[h.Set.Key] == nil:
			codes[i] = script.CodeLost
		case locked && holder != n.ID:
			codes[i] = script.CodeDuplicate
		case ids[n.ID] || q.tasks[n.ID] != nil:
			codes[i] = script.CodeConflict
		default:
			ids[n.ID] = true
			if n.Lock != "" {
				locks[n.Lock] = n.ID
			}
		}
	}
	for i, h := range items {
		if codes[i] == script.CodeOK {
			for _, t := range q.staged(h.Set.Key) {
				q.remove(t, now)
			}
			delete(q.sets, h.Set.Key)
		}
	}
	for i, h := range items {
		if codes[i] == script.CodeOK {
			_ = q.create(&h.Task, now) // cannot fail: checked above
		}
	}
	return codes
}

// archiveInvalid archives a task of a set.
func (q *modelQueue) archiveInvalid(key, id string, now int64) {
	if t := q.tasks[id]; t != nil && t.set == key {
		q.move(t, wire.StateArchived, now)
		q.trim(len(q.tasks), now)
	}
}

// collectionOf returns the key of the group or set of an aggregating task.
func (q *modelQueue) collectionOf(t *modelTask) string {
	if t.set != "" {
		return t.set
	}
	return q.keys.Group(t.group)
}
