package checker

import (
	"cmp"
	"fmt"
	"slices"
)

// life is the time in which a task with a unique key was there for sure.
type life struct {
	task    *task
	offered int64 // before it was there
	from    int64 // it was there
	until   int64 // its lock still stood
}

// unique judges whether two tasks with one key were there at the same time.
func (c *checker) unique() {
	keys := make(map[string][]life)
	var order []string
	for _, t := range c.story.order {
		if t.offered == nil || t.offered.UniqueKey == "" || t.accepted == nil && len(t.runs) == 0 {
			continue
		}
		key := t.offered.Queue + "\x00" + t.offered.UniqueKey
		if keys[key] == nil {
			order = append(order, key)
		}
		keys[key] = append(keys[key], c.life(t))
	}
	for _, key := range order {
		if lives := keys[key]; len(lives) > 1 {
			c.lives(lives)
		}
	}
}

// life returns when a task was there for sure. Only its last run shows that: an earlier one may have gone on after its lease.
func (c *checker) life(t *task) life {
	_, from := t.entered()
	l := life{task: t, offered: t.offered.At, from: from, until: from}
	if r := t.last(); r != nil {
		l.until = max(l.until, r.started.At)
		if f := r.finished; f != nil {
			if _, lapsed := c.trouble.lapsed(r.started.Process, r.started.At, f.At, f.At); !lapsed {
				l.until = max(l.until, f.At)
			}
		}
	}
	// The lock ends before the task, if it has less time.
	l.until = min(l.until, t.offered.At+int64(t.offered.UniqueTTL))
	return l
}

// lives judges all tasks with one key: none may have come while an earlier one was there. Of the earlier ones it is enough to know the
// one whose lock stood longest.
func (c *checker) lives(lives []life) {
	byStart := slices.Clone(lives)
	slices.SortStableFunc(byStart, func(a, b life) int { return cmp.Compare(a.from, b.from) })
	slices.SortStableFunc(lives, func(a, b life) int { return cmp.Compare(a.offered, b.offered) })
	var longest *life
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
		if c.trouble.loss(longest.offered, longest.until) != nil {
			continue
		}
		r := a.last()
		if r == nil {
			continue
		}
		c.wrong(Unique, b.task, fmt.Sprintf("It was accepted while task %s, which was accepted before it and has the same unique key %q, was there and held the lock.",
			a.id, b.task.offered.UniqueKey), a.offered, a.accepted, b.task.offered, b.task.accepted, r.started, r.finished)
	}
}
