package worker

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
)

// learn takes in the answers of a turn. The error is the one that cut the connection, if one did.
func (t *Trip) learn(sent int64) (cut error) {
	now := time.Now()
	cut = t.learnUndone(now)
	for _, f := range t.turn.Fetch {
		if err := t.learnFetched(f, sent, now); err != nil {
			cut = err
		}
	}
	if err := t.learnSettled(now); err != nil {
		cut = err
	}
	clear(t.turn.Settle) // keep no settled task's memory while resting
	clear(t.turn.Fetch)
	t.landed()
	return cut
}

// learnUndone notes which fetches are undone. The error is the one that cut the connection: the loop backs off then.
func (t *Trip) learnUndone(now time.Time) (cut error) {
	p := t.Pump
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doubts = slices.DeleteFunc(p.doubts, func(d *doubt) bool {
		if !slices.Contains(t.undos, d) {
			return false
		}
		d.sent = false
		switch {
		case rdb.Refused(d.undo.Err):
			q := p.queue(d.undo.Queue)
			p.refused(q, now, d.undo.Err)
			d.due = q.retryAt
		case d.undo.Err != nil:
			cut = d.undo.Err
		case !d.undo.Done():
			d.due = now // more leases to look through
		case !d.begun.Before(d.final):
			if d.undo.Back > 0 {
				p.cfg.Log.Info("gave back tasks of a fetch whose reply was lost", "queue", d.undo.Queue, "tasks", d.undo.Back)
			}
			return true
		default:
			d.undone = true
			d.due = d.final
		}
		return false
	})
	t.undos = t.undos[:0]
	for _, q := range p.queues {
		q.doubted = slices.ContainsFunc(p.doubts, func(d *doubt) bool { return d.undo.Queue == q.name && !d.undone })
	}
	return cut
}

// learnFetched starts the tasks that a fetch took, and notes what it says of its queue.
func (t *Trip) learnFetched(f *rdb.Fetch, sent int64, now time.Time) error {
	p := t.Pump
	p.mu.Lock()
	q := p.queue(f.Queue)
	q.flowing = f.Err == nil && f.Code == rdb.CodeOK && f.More
	told, toldAgain := q.asked, q.told // toldAgain: while the fetch was on its way, perhaps of a task that it did not see
	switch {
	case f.Err != nil && rdb.Refused(f.Err):
		p.refused(q, now, f.Err)
		p.mu.Unlock()
		p.slots.release(f.N)
		t.deal(f.Queue, nil)
		return nil
	case f.Err != nil:
		q.doubted = true
		final := now.Add(fetchPatience)
		if f.NotAfter == 0 {
			final = now.Add(p.cfg.Lease)
		}
		p.doubts = append(p.doubts, &doubt{undo: rdb.Undo{Queue: f.Queue, Token: f.Token}, due: now, final: final})
		p.mu.Unlock()
		p.slots.release(f.N)
		t.deal(f.Queue, nil)
		return f.Err
	case f.Code == rdb.CodePaused:
		q.dry, q.shut, q.full, q.credit = true, true, false, 0
	case f.Code == rdb.CodeCapped:
		q.dry, q.shut, q.full, q.credit = !toldAgain, false, true, 0
		if told && len(f.Tasks) == 0 {
			q.quietTo = now.Add(quiet)
		}
	case f.Code == rdb.CodeOK && !f.More:
		q.dry, q.shut, q.full, q.credit = !toldAgain, false, false, 0
	case f.Code == rdb.CodeOK:
		q.dry = false // the other trip may have found it empty before
	}
	q.fails = 0
	p.clock.learn(f.Now, now)
	p.mu.Unlock()
	if told && len(f.Tasks) == 0 {
		p.cfg.Delayed(f.Queue, 0) // the marker was for the forwarder: a delayed task is due earlier than the others
	}

	for _, id := range f.Dropped {
		p.cfg.Log.Error("dropped an ID from pending that no pending task has", "queue", f.Queue, "task", id)
	}
	p.slots.release(f.N - len(f.Tasks))
	if !p.pool.fetching.Load() {
		slices.Reverse(f.Tasks) // they are given back to the front one by one: the oldest must be the last
	}
	var held []*Attempt
	for _, task := range f.Tasks {
		if a := t.begin(f, task, sent); a != nil {
			held = append(held, a)
		}
	}
	t.deal(f.Queue, held)
	return nil
}

// deal hands tasks over that were taken by hand, if they are.
func (t *Trip) deal(queue string, tasks []*Attempt) {
	if t.pool.hand == nil {
		return
	}
	left, more := t.pool.hand.land(queue, t.portions[queue], tasks)
	delete(t.portions, queue)
	giveBack(left)
	if more {
		t.pool.signal() // perhaps other lanes have what this one had not
	}
}

// begin opens an attempt for a task that was fetched, and hands it to a worker; the first one, to the worker that leads. Where tasks are
// taken by hand it returns it.
func (t *Trip) begin(f *rdb.Fetch, task rdb.Fetched, fetchedAt int64) *Attempt {
	p := t.Pump
	a := &Attempt{Queue: f.Queue, Token: f.Token, Started: time.Now(), Wait: task.Wait, pump: p, leased: fetchedAt}
	a.settlement = rdb.Settlement{Queue: f.Queue, ID: task.ID, Token: f.Token}
	msg, err := wire.DecodeTaskMessage(task.Message)
	if err == nil && msg.ID != task.ID {
		err = errors.New("the message is that of task " + strconv.Quote(msg.ID))
	}
	if err != nil {
		p.cfg.Log.Error("archived a task that cannot be read", "queue", f.Queue, "task", task.ID, "error", err)
		a.Message = &wire.TaskMessage{ID: task.ID, Queue: f.Queue}
		a.settlement.Outcome, a.settlement.Failed = rdb.Archive, true
		p.tellEnded(a, Archived, err)
		a.decide()
		p.register(a)
		p.slots.release(1)
		p.finish(a)
		return nil
	}
	a.Message, a.Retried = msg, msg.Retried
	a.settlement.Lock = msg.UniqueKey
	a.Deadline = deadline(a.Started, msg.Timeout, msg.Deadline)
	if p.pool.hand != nil {
		p.hold(a, fetchedAt)
	}
	p.cfg.Prepare(a)
	p.register(a)
	if !p.pool.fetching.Load() && a.decide() { // the server was stopped while the fetch was on its way
		a.settlement.Outcome = rdb.Requeue
		p.slots.release(1)
		p.finish(a)
		return nil
	}
	if t.led && t.own == nil {
		t.own = a
		return nil
	}
	if p.pool.hand != nil {
		return a
	}
	p.pool.submit(a)
	return nil
}

// learnSettled closes the attempts that are settled, and keeps the others to be sent again with the same token.
func (t *Trip) learnSettled(now time.Time) error {
	var cut error
	p := t.Pump
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range t.sent {
		s, q := &a.settlement, p.queue(a.Queue)
		switch {
		case s.Err == nil:
			if !now.Before(q.retryAt) {
				q.fails = 0
			}
			p.close(a)
			continue
		case !rdb.Refused(s.Err):
			cut = s.Err
		case !now.Before(q.retryAt):
			p.refused(q, now, s.Err)
		}
		a.tries++
		p.unsettled = append(p.unsettled, a)
	}
	clear(t.sent)
	t.sent = t.sent[:0]
	for _, q := range p.queues {
		q.owed = 0
	}
	for _, a := range p.unsettled {
		p.queue(a.Queue).owed++
	}
	for _, other := range p.trips {
		for _, a := range other.sent {
			if a.tries > 0 {
				p.queue(a.Queue).owed++
			}
		}
	}
	return cut
}

// close ends an attempt that Redis has answered for. The caller holds the lock.
func (p *Pump) close(a *Attempt) {
	p.unregister(a)
	s := &a.settlement
	if a.answered != nil {
		defer close(a.answered)
	}
	switch {
	case s.Code.Err() == nil:
		if s.Outcome == rdb.Retry {
			p.cfg.Delayed(a.Queue, s.Delay)
		}
	case a.tries == 0 && !a.lost.Load() && p.pool.hand == nil: // by hand, who settles it is told
		p.cfg.Log.Warn("the outcome of a task was refused, because this server no longer holds it",
			"queue", a.Queue, "task", s.ID, "type", a.Message.Type, "outcome", s.Outcome.String(), "error", s.Code.Err())
	}
}

// refused gives a queue that answered with an error a pause. The caller holds the lock.
func (p *Pump) refused(q *queueState, now time.Time, err error) {
	pause := min(minQueuePause<<min(q.fails, 10), maxQueuePause)
	q.fails++
	q.retryAt = now.Add(pause)
	q.complain.Do(func() {
		p.cfg.Log.Error("a queue is in trouble", "queue", q.name, "failures", q.fails, "pause", pause, "error", err)
	})
}
