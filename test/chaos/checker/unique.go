package checker

import (
	"cmp"
	"fmt"
	"slices"
)

// lifetime is the interval in which a task with a unique key certainly existed.
type lifetime struct {
	task    *task
	offered int64 // before it existed
	from    int64 // it existed
	until   int64 // it still held its lock
}

// unique checks whether two tasks with the same key existed at the same time.
func (c *checker) unique() {
	keys := make(map[string][]lifetime)
	var order []string
	for _, t := range c.timeline.order {
		if t.offered == nil || t.offered.UniqueKey == "" || t.accepted == nil && len(t.runs) == 0 {
			continue
		}
		key := t.offered.Queue + "\x00" + t.offered.UniqueKey
		if keys[key] == nil {
			order = append(order, key)
		}
		keys[key] = append(keys[key], c.lifetime(t))
	}
	for _, key := range order {
		if lives := keys[key]; len(lives) > 1 {
			c.lifetimes(lives)
		}
	}
}

// lifetime returns when a task certainly existed. Only its last run shows that: an earlier one may
// have continued after its lease expired.
func (c *checker) lifetime(t *task) lifetime {
	_, from := t.entered()
	l := lifetime{task: t, offered: t.offered.At, from: from, until: from}
	if r := t.last(); r != nil {
		l.until = max(l.until, r.started.At)
		if f := r.finished; f != nil {
			if _, lapsed := c.faults.lapsed(r.started.Process, r.started.At, f.At, f.At); !lapsed {
				l.until = max(l.until, f.At)
			}
		}
	}
	// The lock may expire before the task ends.
	l.until = min(l.until, t.offered.At+int64(t.offered.UniqueTTL))
	return l
}

// lifetimes checks all tasks with one key: none may be accepted while an earlier one existed. Only
// the earlier task with the longest lock matters.
func (c *checker) lifetimes(lives []lifetime) {
	byStart := slices.Clone(lives)
	slices.SortStableFunc(byStart, func(a, b lifetime) int { return cmp.Compare(a.from, b.from) })
	slices.SortStableFunc(lives, func(a, b lifetime) int { return cmp.Compare(a.offered, b.offered) })
	var longest *lifetime
	next := 0
	for i := range lives {
		b := &lives[i]
		for next < len(byStart) && byStart[next].from < b.offered {
			if a := &byStart[next]; longest == nil || a.until > longest.until {
				longest = a
			}
			next++
		}
		if longest == nil || b.from >= longest.until {
			continue
		}
		a := longest.task
		if c.faults.loss(longest.offered, longest.until) != nil {
			continue
		}
		r := a.last()
		if r == nil {
			continue
		}
		c.wrong(Unique, b.task, fmt.Sprintf("It was accepted while task %s, which was accepted earlier and has the same unique key %q, existed and held the lock.",
			a.id, b.task.offered.UniqueKey), a.offered, a.accepted, b.task.offered, b.task.accepted, r.started, r.finished)
	}
}
