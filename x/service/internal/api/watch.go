package api

import (
	"context"
	"sync"
	"time"

	"github.com/asynq-go/asynq"
)

// watcher looks at tasks for those who wait for their end. Each task is looked at once for all who wait for it, the less often the longer
// they have waited; what this service settles is looked at at once. It does nothing while nobody waits.
type watcher struct {
	inspector *asynq.Inspector
	cancel    context.CancelFunc
	ctx       context.Context

	mu      sync.Mutex
	tasks   map[taskName]*watched
	running bool
	wake    chan struct{}
}

type taskName struct{ queue, id string }

// watched is a task that somebody waits for.
type watched struct {
	waits map[*wait]bool
	next  time.Time     // when to look
	pause time.Duration // after that
}

// wait is one who waits.
type wait struct {
	news    chan sighting // holds the last one
	watcher *watcher
	task    taskName
}

// sighting is what was seen of a task.
type sighting struct {
	info *asynq.TaskInfo
	err  error
}

const (
	firstPause = 50 * time.Millisecond
	lastPause  = time.Second
	lookers    = 4 // tasks that are looked at at the same time
)

func newWatcher(i *asynq.Inspector) *watcher {
	ctx, cancel := context.WithCancel(context.Background())
	return &watcher{inspector: i.WithContext(ctx), ctx: ctx, cancel: cancel, tasks: make(map[taskName]*watched), wake: make(chan struct{}, 1)}
}

func (w *watcher) close() { w.cancel() }

// watch begins to look at a task.
func (w *watcher) watch(queue, id string) *wait {
	name := taskName{queue, id}
	one := &wait{news: make(chan sighting, 1), watcher: w, task: name}
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.tasks[name]
	if t == nil {
		t = &watched{waits: make(map[*wait]bool)}
		w.tasks[name] = t
	}
	t.waits[one] = true
	t.pause, t.next = firstPause, time.Now().Add(firstPause)
	if !w.running {
		w.running = true
		go w.run()
	}
	w.rouse()
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
		delete(w.tasks, one.task)
		w.rouse()
	}
}

// Hint tells that something has become of a task.
func (a *API) Hint(queue, id string) {
	w := a.watcher
	w.mu.Lock()
	defer w.mu.Unlock()
	if t := w.tasks[taskName{queue, id}]; t != nil {
		t.next, t.pause = time.Time{}, firstPause
		w.rouse()
	}
}

// run looks at tasks until nobody waits.
func (w *watcher) run() {
	for {
		due, next := w.due()
		if due == nil && next.IsZero() {
			return
		}
		w.look(due)
		if len(due) > 0 {
			continue
		}
		timer := time.NewTimer(time.Until(next))
		select {
		case <-timer.C:
		case <-w.wake:
		case <-w.ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// due returns the tasks to look at now, and when the next one will be; neither if nobody waits.
func (w *watcher) due() (names []taskName, next time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.tasks) == 0 {
		w.running = false
		return nil, time.Time{}
	}
	now := time.Now()
	for name, t := range w.tasks {
		if !t.next.After(now) {
			names = append(names, name)
			t.pause = min(2*t.pause, lastPause)
			t.next = now.Add(t.pause)
		} else if next.IsZero() || t.next.Before(next) {
			next = t.next
		}
	}
	return names, next
}

// look looks at tasks, and tells those who wait.
func (w *watcher) look(names []taskName) {
	var group sync.WaitGroup
	slots := make(chan struct{}, lookers)
	for _, name := range names {
		slots <- struct{}{}
		group.Go(func() {
			info, err := w.inspector.GetTaskInfo(name.queue, name.id)
			w.tell(name, sighting{info, err})
			<-slots
		})
	}
	group.Wait()
}

func (w *watcher) tell(name taskName, seen sighting) {
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
