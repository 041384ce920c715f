package inspect

import (
	"context"

	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// listWindow is how many IDs of a list are read at a time, listOverlap how many of them again the
// next time.
const (
	listWindow  = 500
	listOverlap = 100
)

// listWalk walks a list from one of its ends in windows. Tasks are pushed on the left and fetched
// from the right; some are returned on the right, and some are removed anywhere. Entries have no
// fixed index: changes between an entry and the start of the walk move it.
//
// Entries keep their order, and every entry before a seen one was seen, too, or is new. So a window
// continues the walk if it is at the start of the list or contains a seen entry: its other entries
// follow without a gap. Otherwise a window nearby does. A walk from a cursor knows only the
// neighbors of its cursor.
//
// A task that was seen, left and returned must count as another entry. So an entry is an ID with a
// field that changes whenever the task enters the list. (Tasks of servers of the reference have no
// token: if such an active task leaves and returns, the walk may miss others.)
//
// There is one exception to the order: in a long list of active tasks, the task that was fetched
// last takes the place of one that is removed. So the walk is repeated, from the right, where
// entries keep their indexes then, until it finds no new entry.
type listWalk struct {
	b     *Inspector
	q     *script.Queue
	key   string
	state wire.State
	side  string // to begin at
	field string // that distinguishes entries of a task

	resume *Cursor // where to continue; nil: behind the window, or at the start
	whole  bool    // the walk began at the start of the list
	seen   *seen
	left   int      // the number of entries left to scan; 0 before the first window was read
	ids    []string // seen, not scanned yet
	last   string   // the last ID scanned
	end    bool
	fresh  bool // there were new entries in this pass
	moves  bool // entries may move

	window []entry // the last one read; nil before the first
	base   int     // its index in the list, from side
	length int     // of the list, when the window was read
}

// entry is a task's ID in a list, with a mark that distinguishes entries of the same task.
type entry struct{ id, mark string }

// minMoved is the length of a list of active tasks in which entries may move. They move from twice
// this length on (lib/long.lua of package rdb), but the list may be shorter whenever a window is
// read.
const minMoved = 1000

// maxMore limits the tasks that a list walk scans beyond those at its start, because clients may
// push tasks as fast as it scans. Only if workers return more tasks than that meanwhile, it may
// miss some.
const maxMore = 100_000

func newListWalk(b *Inspector, q *script.Queue, key string, state wire.State, reverse bool) *listWalk {
	w := &listWalk{b: b, q: q, key: key, state: state, side: "right", field: wire.FieldPendingSince, seen: newSeen(), whole: true}
	if reverse {
		w.side = "left"
	}
	if state == wire.StateActive {
		w.field = wire.FieldToken
	}
	return w
}

func (w *listWalk) next(ctx context.Context, n int) ([]*TaskInfo, int, error) {
	for len(w.ids) == 0 {
		if w.end && !w.again() {
			return nil, 0, nil
		}
		if err := w.read(ctx); err != nil {
			return nil, 0, err
		}
	}
	ids := w.ids[:min(n, len(w.ids))]
	c := readCall(w.q, ids...)
	w.b.Run(ctx, c)
	r := c.Read()
	now, scanned := readTime(&r), 0
	var tasks []*TaskInfo
	for name := w.state.String(); r.More() && scanned < len(ids); scanned++ {
		t := readStored(&r)
		r.Int() // its lock
		if t.state == name {
			tasks = append(tasks, t.info(w.q.Keys.Name, w.state, "", now))
		}
	}
	if scanned == 0 {
		r.Fail()
	}
	if err := r.Err(); err != nil {
		return nil, 0, w.b.explain(ctx, w.q, err)
	}
	w.last, w.ids = ids[scanned-1], w.ids[scanned:]
	if w.left -= scanned; w.left <= 0 {
		w.ids, w.window, w.end, w.moves = nil, nil, true, false
	}
	return tasks, scanned, nil
}

// read reads the next window.
func (w *listWalk) read(ctx context.Context) error {
	p := w.resume
	if p == nil {
		p = w.cursorAt(len(w.window))
	}
	at, err := w.find(ctx, p)
	if err != nil {
		return err
	}
	w.resume = nil
	for i, e := range w.window {
		if w.seen.add(e.mark) && i >= at { // those before the cursor of another walk count as seen
			w.ids, w.fresh = append(w.ids, e.id), true
		}
	}
	w.end = len(w.window) < listWindow
	w.moves = w.moves || w.whole && w.state == wire.StateActive && w.length >= minMoved
	return nil
}

// again begins another pass over a list whose entries move, if this one has found new entries.
func (w *listWalk) again() bool {
	if !w.moves || !w.fresh {
		return false
	}
	w.window, w.base, w.end, w.fresh, w.side = nil, 0, false, false, "right"
	return true
}
