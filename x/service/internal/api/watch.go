package api

import (
	"context"
	"sync"
	"time"

	"github.com/asynq-go/asynq"
)

// watcher looks at tasks for those who wait for their end. Each task is looked at once for all who wait for it, the less often the longer
// they have waited; what this service settles is looked at at once. All looks are at ticks, so that one round trip is enough for many
// tasks, and are at their states only: those who wait read the rest, once. It does nothing while nobody waits.
type watcher struct {
	inspector *asynq.Inspector
	cancel    context.CancelFunc
	ctx       context.Context
	began     time.Time // which ticks are counted from

	mu      sync.Mutex
	tasks   map[asynq.TaskRef]*watched
	running bool
	until   time.Duration // when it looks next, unless it is woken
	wake    chan struct{}
}

// watched is a task that somebody waits for.
type watched struct {
	waits map[*wait]bool
	next  time.Duration // when to look, since the watcher began
	pause time.Duration // after that
}

// wait is one who waits.
type wait struct {
	news    chan sighting // holds the last one
	watcher *watcher
	task    asynq.TaskRef
}

// sighting is what was seen of a task.
type sighting = asynq.TaskStateResult

const (
	firstPause = 50 * time.Millisecond
	lastPause  = time.Second
	// lookTimeout is how long a look may take: on a Cluster a node that is silent must not hide the tasks of the others for long.
	lookTimeout = 2 * time.Second
)

func newWatcher(i *asynq.Inspector) *watcher {
	ctx, cancel := context.WithCancel(context.Background())
	return &watcher{inspector: i, ctx: ctx, cancel: cancel, began: time.Now(), tasks: make(map[asynq.TaskRef]*watched), wake: make(chan struct{}, 1)}
}

// tick is the next multiple of a pause, since the watcher began.
func (w *watcher) tick(pause time.Duration) time.Duration {
	return (time.Since(w.began)/pause + 1) * pause
}

func (w *watcher) close() { w.cancel() }

// watch begins to look at a task.
func (w *watcher) watch(queue, id string) *wait {
	name := asynq.TaskRef{Queue: queue, ID: id}
	one := &wait{news: make(chan sighting, 1), watcher: w, task: name}
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
		w.rouse()
	}
	return one
}

func (w *watcher) rouse() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// leave says that one waits no more.
func (one *wait) leave() {
	w := one.watcher
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.tasks[one.task]
	if delete(t.waits, one); len(t.waits) == 0 {
		if delete(w.tasks, one.task); len(w.tasks) == 0 {
			w.rouse()
		}
	}
}

// Hint tells that something has become of a task.
func (a *API) Hint(queue, id string) {
	w := a.watcher
	w.mu.Lock()
	defer w.mu.Unlock()
	if t := w.tasks[asynq.TaskRef{Queue: queue, ID: id}]; t != nil {
		t.next, t.pause = 0, firstPause
		w.rouse()
	}
}

// run looks at tasks until nobody waits.
func (w *watcher) run() {
	for w.ctx.Err() == nil {
		names, next, more := w.due()
		if !more {
			return
		}
		if len(names) > 0 {
			w.look(names)
			continue
		}
		timer := time.NewTimer(next - time.Since(w.began))
		select {
		case <-timer.C:
		case <-w.wake:
		case <-w.ctx.Done():
		}
		timer.Stop()
	}
}

// due returns the tasks to look at now, and when the next ones will be; no more if nobody waits.
func (w *watcher) due() (names []asynq.TaskRef, next time.Duration, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.tasks) == 0 {
		w.running = false
		return nil, 0, false
	}
	now := time.Since(w.began)
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

// look looks at tasks, and tells those who wait.
func (w *watcher) look(names []asynq.TaskRef) {
	ctx, cancel := context.WithTimeout(w.ctx, lookTimeout)
	defer cancel()
	for i, seen := range w.inspector.TaskStates(ctx, names...) {
		w.tell(names[i], seen)
	}
}

func (w *watcher) tell(name asynq.TaskRef, seen sighting) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.tasks[name]
	if t == nil {
		return
	}
	for one := range t.waits {
		select {
		case <-one.news:
		default:
		}
		one.news <- seen // only tell fills it, under the lock
	}
}
