package worker

import (
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
)

// Observer is told what the workers and pumps do. It leads to user code, which may panic. Each field may be nil.
type Observer struct {
	Started   func(a *Attempt)
	Ended     func(a *Attempt, ending Ending, err error)
	LeaseLost func(a *Attempt)
	Turn      func(r TurnReport)
}

// Ending is what was decided about an attempt.
type Ending int

// The endings of attempts.
const (
	Succeeded Ending = iota
	Retried          // with a used attempt
	Deferred         // tried again without
	Archived
	Dropped
	Returned
	Lost
)

// endingOf tells what a settlement means.
func endingOf(s *rdb.Settlement, err error) Ending {
	switch s.Outcome {
	case rdb.Retry:
		if s.Failed {
			return Retried
		}
		return Deferred
	case rdb.Archive:
		return Archived
	case rdb.Requeue:
		return Returned
	}
	if err != nil {
		return Dropped
	}
	return Succeeded
}

// TurnReport says how a turn went.
type TurnReport struct {
	Took    time.Duration // until the answers were there
	Settled int           // outcomes that went along
	Refused int           // of them, because this server no longer held the task, or Redis did not take them
	Wanted  int           // tasks that were asked for
	Fetched int           // tasks that came
	Err     error         // that cut the connection
}

// report counts what a turn brought, if anybody is to know, before its parts are forgotten.
func (t *Trip) report(sent int64) (r TurnReport) {
	if t.cfg.Observer == nil || t.cfg.Observer.Turn == nil {
		return TurnReport{}
	}
	r.Took = since(sent)
	r.Settled = len(t.turn.Settle)
	for _, s := range t.turn.Settle {
		if rdb.Refused(s.Err) || s.Err == nil && s.Code.Err() != nil {
			r.Refused++
		}
	}
	for _, f := range t.turn.Fetch {
		r.Wanted += f.N
		r.Fetched += len(f.Tasks)
	}
	return r
}

func (t *Trip) tellTurn(r TurnReport, err error) {
	if o := t.cfg.Observer; o != nil && o.Turn != nil {
		told := r // not r itself: captured, it would be on the heap also where nobody is told
		told.Err = err
		t.observe("TurnEnded", nil, func() { o.Turn(told) })
	}
}

func (p *Pump) tellStarted(a *Attempt) {
	if o := p.cfg.Observer; o != nil && o.Started != nil {
		p.observe("AttemptStarted", a, func() { o.Started(a) })
	}
}

func (p *Pump) tellEnded(a *Attempt, ending Ending, err error) {
	if o := p.cfg.Observer; o != nil && o.Ended != nil {
		p.observe("AttemptEnded", a, func() { o.Ended(a, ending, err) })
	}
}

// tellLeaseLost tells of a lost lease once, however many found out.
func (p *Pump) tellLeaseLost(a *Attempt) {
	if o := p.cfg.Observer; o != nil && o.LeaseLost != nil && a.lossTold.CompareAndSwap(false, true) {
		p.observe("LeaseLost", a, func() { o.LeaseLost(a) })
	}
}

func (p *Pump) observe(callback string, a *Attempt, f func()) {
	if failure := Contain(f); failure != nil {
		p.logPanic("Observer."+callback, a, failure)
	}
}
