package worker

import (
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/script"
)

// Observer is notified of attempts and round trips. Its functions are user code and may panic. Each
// field may be nil.
type Observer struct {
	Started   func(a *Attempt)
	Ended     func(a *Attempt, outcome rdb.Outcome, err error)
	LeaseLost func(a *Attempt)
	RoundTrip func(r RoundTripReport)
}

// RoundTripReport describes one round trip. The public package converts it to its own type with the
// same fields.
type RoundTripReport struct {
	Duration           time.Duration // until the replies arrived
	Settled, Rejected  int           // outcomes sent; those that Redis rejected
	Requested, Fetched int           // tasks requested and received
	Err                error         // of the connection
}

// report counts the contents of a round trip, before they are cleared. It returns zero without an
// Observer.
func (t *RoundTrip) report(sent int64) (r RoundTripReport) {
	if o := t.f.cfg.Observer; o == nil || o.RoundTrip == nil {
		return RoundTripReport{}
	}
	r.Duration = since(sent)
	r.Settled = len(t.call.Settle)
	for _, s := range t.call.Settle {
		if script.Refused(s.Err) || s.Err == nil && s.Code.Err() != nil {
			r.Rejected++
		}
	}
	for _, fetch := range t.call.Fetch {
		r.Requested += fetch.N
		r.Fetched += len(fetch.Tasks)
	}
	return r
}

func (t *RoundTrip) notifyRoundTrip(r RoundTripReport, err error) {
	if o := t.f.cfg.Observer; o != nil && o.RoundTrip != nil {
		report := r // a copy: r would be on the heap even without an observer
		report.Err = err
		t.f.safely("Observer.RoundTripEnded", nil, func() { o.RoundTrip(report) })
	}
}

func (f *Fetcher) notifyStarted(a *Attempt) {
	if o := f.cfg.Observer; o != nil && o.Started != nil {
		f.safely("Observer.AttemptStarted", a, func() { o.Started(a) })
	}
}

// notifyEnded reports the outcome of an attempt that started, which is in its settlement.
func (f *Fetcher) notifyEnded(a *Attempt, err error) { f.reportEnd(a, err, true) }

func (f *Fetcher) reportEnd(a *Attempt, err error, started bool) {
	if f.cfg.Count != nil {
		o := a.settlement.Outcome
		c := Count{Now: time.Now(), Started: started}
		if c.Failed = o == rdb.Retry || o == rdb.Archive; c.Failed {
			c.Err = a.Message.LastErr
			if !started && c.Err == "" {
				c.Err = err.Error() // of a message that cannot be decoded
			}
		}
		f.cfg.Count(a, o, c)
	}
	if o := f.cfg.Observer; o != nil && o.Ended != nil {
		f.safely("Observer.AttemptEnded", a, func() { o.Ended(a, a.settlement.Outcome, err) })
	}
}

// notifyLeaseLost reports a lost lease once, even if it is detected several times.
func (f *Fetcher) notifyLeaseLost(a *Attempt) {
	if o := f.cfg.Observer; o != nil && o.LeaseLost != nil && a.lossReported.CompareAndSwap(false, true) {
		f.safely("Observer.LeaseLost", a, func() { o.LeaseLost(a) })
	}
}
