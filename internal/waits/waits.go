// Package waits waits for the ends of tasks. Workers report them to a list of the client, on which
// it blocks with one connection per lane. A report may be lost with a connection, so the states of
// all awaited tasks are also read every few seconds, many at a time.
package waits

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
)

// Broker is the part of rdb.Broker that Waits use.
type Broker interface {
	ID() string
	Lane(queue string) string
	Replies(ctx context.Context, client string, queues []string, timeout time.Duration, receive func(rdb.Reply)) error
	EndReplies(ctx context.Context, client, queue string)
	States(ctx context.Context, queue string, ids []string) ([]wire.State, error)
}

const (
	// A lap is the time between two readings of the states: half a second for each call that they
	// need, within these bounds.
	minLap = time.Second
	maxLap = 5 * time.Second

	perCall = 1000 // states that one call reads

	// maxBlocking is the number of lanes that block at a time, each with a connection of the pool.
	// Only a Cluster has more than one lane. Others read the states every shortLap.
	maxBlocking = 4
	shortLap    = 250 * time.Millisecond
)

// Waits waits for the ends of tasks of a client. The zero value with a Broker is ready.
type Waits struct {
	Broker Broker

	mu       sync.Mutex
	lanes    map[string]*lane
	blocking int // lanes that block
}

// lane is the awaited tasks of the queues of one lane. Its goroutine runs while there are any.
type lane struct {
	waits   *Waits
	queues  map[string]map[string][]*Wait // by queue and ID
	count   int
	running bool
	blocked []string // the queues on which the goroutine blocks; nil: it does not
}

// Wait waits for the end of one task.
type Wait struct {
	// End yields the end of the task, once.
	End <-chan rdb.Reply

	lane      *lane
	queue, id string
	end       chan rdb.Reply
	created   bool
}

// Begin waits for a task that may not exist yet: it receives the report of its end. The caller must
// call Created when the task exists, and Stop at the end.
func (w *Waits) Begin(queue, id string) *Wait {
	name := w.Broker.Lane(queue)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lanes == nil {
		w.lanes = make(map[string]*lane)
	}
	l := w.lanes[name]
	if l == nil {
		l = &lane{waits: w, queues: make(map[string]map[string][]*Wait)}
		w.lanes[name] = l
	}
	end := make(chan rdb.Reply, 1)
	wait := &Wait{End: end, lane: l, queue: queue, id: id, end: end}
	if l.queues[queue] == nil {
		l.queues[queue] = make(map[string][]*Wait)
	}
	l.queues[queue][id] = append(l.queues[queue][id], wait)
	l.count++
	switch {
	case !l.running:
		l.running = true
		go l.run()
	case l.blocked != nil && !slices.Contains(l.blocked, queue):
		go w.Broker.EndReplies(context.Background(), w.Broker.ID(), l.blocked[0])
		l.blocked = nil
	}
	return wait
}

// Created lets the state of the task be read. Before it exists, it would seem to be deleted.
func (w *Wait) Created() {
	w.lane.waits.mu.Lock()
	defer w.lane.waits.mu.Unlock()
	w.created = true
}

// Stop ends the wait.
func (w *Wait) Stop() {
	l := w.lane
	l.waits.mu.Lock()
	defer l.waits.mu.Unlock()
	l.remove(w)
	if l.count == 0 && l.blocked != nil { // end the goroutine
		go l.waits.Broker.EndReplies(context.Background(), l.waits.Broker.ID(), l.blocked[0])
		l.blocked = nil
	}
}

// remove removes a wait. It returns false if it was removed before. The caller holds the lock.
func (l *lane) remove(w *Wait) bool {
	waits := l.queues[w.queue][w.id]
	i := slices.Index(waits, w)
	if i < 0 {
		return false
	}
	l.count--
	if len(waits) > 1 {
		l.queues[w.queue][w.id] = slices.Delete(slices.Clone(waits), i, i+1)
		return true
	}
	delete(l.queues[w.queue], w.id)
	if len(l.queues[w.queue]) == 0 {
		delete(l.queues, w.queue)
	}
	return true
}

// report ends all waits for a task whose end was reported.
func (l *lane) report(r rdb.Reply) {
	l.waits.mu.Lock()
	defer l.waits.mu.Unlock()
	for _, w := range slices.Clone(l.queues[r.Queue][r.ID]) {
		l.finish(w, r)
	}
}

// finish ends a wait, unless it has ended. The caller holds the lock.
func (l *lane) finish(w *Wait, r rdb.Reply) {
	if l.remove(w) {
		w.end <- r
	}
}

// lap returns the queues to block on and the time until the states are read. It returns false if no
// task is awaited any more.
func (l *lane) lap() (queues []string, lap time.Duration, ok bool) {
	l.waits.mu.Lock()
	defer l.waits.mu.Unlock()
	if l.count == 0 {
		l.running, l.blocked = false, nil
		return nil, 0, false
	}
	for queue := range l.queues {
		queues = append(queues, queue)
	}
	slices.Sort(queues)
	l.blocked = queues
	lap = time.Duration(l.count) * minLap / (2 * perCall)
	return queues, min(max(lap, minLap), maxLap), true
}

// maxPause is the longest pause after failed calls.
const maxPause = time.Second

// run receives replies and reads states until no task is awaited.
func (l *lane) run() {
	ctx, read, pause := context.Background(), time.Now(), 20*time.Millisecond
	for {
		queues, lap, ok := l.lap()
		if !ok {
			return
		}
		var err error
		left := (lap - time.Since(read)).Round(time.Second) // BLPOP waits for whole seconds
		switch {
		case left <= 0:
			if err = l.read(ctx); err == nil {
				read = time.Now()
			}
		case l.waits.block():
			err = l.waits.Broker.Replies(ctx, l.waits.Broker.ID(), queues, left, l.report)
			l.waits.unblock()
		default:
			time.Sleep(shortLap)
			err = l.read(ctx)
		}
		if err == nil {
			pause = 20 * time.Millisecond
			continue
		}
		time.Sleep(pause)
		pause = min(2*pause, maxPause)
	}
}

// block reports whether another lane may block. If so, it must call unblock.
func (w *Waits) block() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.blocking == maxBlocking {
		return false
	}
	w.blocking++
	return true
}

func (w *Waits) unblock() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.blocking--
}

// read reads the states of all awaited tasks that exist, and ends the waits for those that have
// ended.
func (l *lane) read(ctx context.Context) error {
	l.waits.mu.Lock()
	all := make(map[string][]*Wait, len(l.queues)) // by queue
	for queue, tasks := range l.queues {
		for _, waits := range tasks {
			for _, w := range waits {
				if w.created {
					all[queue] = append(all[queue], w)
				}
			}
		}
	}
	l.waits.mu.Unlock()
	for queue, waits := range all {
		ids := make([]string, len(waits))
		for i, w := range waits {
			ids[i] = w.id
		}
		states, err := l.waits.Broker.States(ctx, queue, ids)
		if err != nil {
			return err
		}
		l.waits.mu.Lock()
		for i, w := range waits {
			if outcome := Outcome(states[i]); outcome != "" {
				l.finish(w, rdb.Reply{Queue: queue, ID: w.id, Outcome: outcome})
			}
		}
		l.waits.mu.Unlock()
	}
	return nil
}

// Outcome returns how a task in a state has ended, "" if it has not. State 0 is that of a task that
// does not exist.
func Outcome(state wire.State) rdb.ReplyOutcome {
	switch state {
	case 0:
		return rdb.ReplyDeleted
	case wire.StateCompleted:
		return rdb.ReplyUnread
	case wire.StateArchived:
		return rdb.ReplyFailed
	case wire.StateActive, wire.StatePending, wire.StateScheduled, wire.StateRetry, wire.StateAggregating:
	}
	return ""
}
