package api

import (
	"context"
	"sync"
	"time"

	"github.com/asynq-go/asynq"
)

// watcher polls the states of tasks for requests that wait for their end. It polls each task once
// for all its waiters, less often the longer they wait, and at once when this service settles it.
// Polls are aligned to ticks, so one round trip serves many tasks. Waiters read the rest of a task
// once, at its end. The watcher is idle without waiters.
type watcher struct {
	inspector *asynq.Inspector
	cancel    context.CancelFunc
	ctx       context.Context
	started   time.Time // origin of the ticks

	mu      sync.Mutex
	tasks   map[asynq.TaskRef]*watched
	running bool
	until   time.Duration // time of the next poll, unless woken
	wake    chan struct{}
}

// watched is a task that has waiters.
type watched struct {
	waits map[*wait]bool
	next  time.Duration // time of the next poll, since started
	pause time.Duration // poll interval after that
}

// wait is one waiter for a task.
type wait struct {
	updates chan taskState // holds the latest state
	watcher *watcher
	task    asynq.TaskRef
}

// taskState is the observed state of a task.
type taskState = asynq.TaskStateResult

const (
	firstPause = 50 * time.Millisecond
	lastPause  = time.Second
	// pollTimeout limits one poll: an unresponsive Cluster node must not delay the tasks of other
	// nodes for long.
	pollTimeout = 2 * time.Second
)

func newWatcher(i *asynq.Inspector) *watcher {
	ctx, cancel := context.WithCancel(context.Background())
	return &watcher{inspector: i, ctx: ctx, cancel: cancel, started: time.Now(), tasks: make(map[asynq.TaskRef]*watched), wake: make(chan struct{}, 1)}
}

// tick returns the next multiple of a pause since the watcher started.
func (w *watcher) tick(pause time.Duration) time.Duration {
	return (time.Since(w.started)/pause + 1) * pause
}

func (w *watcher) close() { w.cancel() }

// watch starts watching a task.
func (w *watcher) watch(queue, id string) *wait {
	name := asynq.TaskRef{Queue: queue, ID: id}
	one := &wait{updates: make(chan taskState, 1), watcher: w, task: name}
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.tasks[name]
	if t == nil {
		t = &watched{waits: make(map[*wait]bool)}
		w.tasks[name] = t
	}
	t.waits[one] = true
	t.pause, t.next = firstPause, w.tick(firstPause)
	if !w.running {
		w.running, w.until = true, 0
		go w.run()
	}
	if t.next < w.until {
		w.wakeUp()
	}
	return one
}

func (w *watcher) wakeUp() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// leave ends the wait.
func (one *wait) leave() {
	w := one.watcher
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.tasks[one.task]
	if delete(t.waits, one); len(t.waits) == 0 {
		if delete(w.tasks, one.task); len(w.tasks) == 0 {
			w.wakeUp()
		}
	}
}

// Hint makes the watcher poll a task now.
func (a *API) Hint(queue, id string) {
	w := a.watcher
	w.mu.Lock()
	defer w.mu.Unlock()
	if t := w.tasks[asynq.TaskRef{Queue: queue, ID: id}]; t != nil {
		t.next, t.pause = 0, firstPause
		w.wakeUp()
	}
}

// run polls tasks until there are no waiters.
func (w *watcher) run() {
	for w.ctx.Err() == nil {
		names, next, more := w.due()
		if !more {
			return
		}
		if len(names) > 0 {
			w.poll(names)
			continue
		}
		timer := time.NewTimer(next - time.Since(w.started))
		select {
		case <-timer.C:
		case <-w.wake:
		case <-w.ctx.Done():
		}
		timer.Stop()
	}
}

// due returns the tasks to poll now and the time of the next poll; more is false if there are no
// waiters.
func (w *watcher) due() (names []asynq.TaskRef, next time.Duration, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.tasks) == 0 {
		w.running = false
		return nil, 0, false
	}
	now := time.Since(w.started)
	next = now + lastPause
	for name, t := range w.tasks {
		if t.next <= now {
			names = append(names, name)
			t.pause = min(2*t.pause, lastPause)
			t.next = w.tick(t.pause)
		} else {
			next = min(next, t.next)
		}
	}
	w.until = next
	return names, next, true
}

// poll reads the states of tasks and notifies their waiters.
func (w *watcher) poll(names []asynq.TaskRef) {
	ctx, cancel := context.WithTimeout(w.ctx, pollTimeout)
	defer cancel()
	for i, seen := range w.inspector.TaskStates(ctx, names...) {
		w.notify(names[i], seen)
	}
}

func (w *watcher) notify(name asynq.TaskRef, seen taskState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.tasks[name]
	if t == nil {
		return
	}
	for one := range t.waits {
		select {
		case <-one.updates:
		default:
		}
		one.updates <- seen // never blocks: only notify sends, under the lock
	}
}
