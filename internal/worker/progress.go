package worker

import (
	"context"
	"sync"
	"time"

	"github.com/asynq-go/asynq/internal/batch"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/script"
)

// progressInterval is the least time between two writes of the progress of an attempt.
const progressInterval = time.Second

// report is the progress that the handler of an attempt reported last.
type report struct {
	mu    sync.Mutex
	data  []byte                // not stored in Redis; nil: none
	seq   int                   // of data
	sent  int64                 // when the last request was sent, as uptime; 0: never
	timer *time.Timer           // adds data to the next request; nil: it is not running
	call  *batch.Call[*Attempt] // waits to be sent; nil: none
	err   error                 // of the last request
}

// newReports returns the batcher for the progress of the attempts of the lane. It sends one request
// after the other, so that progress cannot overwrite later progress.
func (f *Fetcher) newReports() *batch.Batcher[*Attempt] {
	return batch.New(batch.Config[*Attempt]{Send: f.writeProgress, Linger: resultLinger, Panicked: func(err error) {
		f.cfg.Log.Error("request for progress panicked", "error", err)
	}})
}

// InPool reports whether the attempt belongs to a pool, unlike those of ContextFor.
func (a *Attempt) InPool() bool { return a.fetcher != nil }

// WriteProgress stores the progress of the task. It returns ErrLeaseExpired if the attempt is over
// or its lease is known to be lost. For a handler it returns at once: the first progress is sent
// soon, the last one within each further progressInterval at its end or with the outcome. For the
// holder of a lease it waits until the progress is stored.
func (a *Attempt) WriteProgress(ctx context.Context, data []byte) error {
	if a.lost.Load() || a.status.Load() != running {
		return ErrLeaseExpired
	}
	r := a.report.Load()
	if r == nil {
		a.report.CompareAndSwap(nil, &report{})
		r = a.report.Load()
	}
	r.mu.Lock()
	r.data = data
	r.seq++
	if a.replied == nil {
		r.plan(a)
		r.mu.Unlock()
		return nil
	}
	r.mu.Unlock()
	if _, err := a.fetcher.reports.Do(ctx, a); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// plan makes sure that data is sent. The caller holds the lock.
func (r *report) plan(a *Attempt) {
	switch wait := progressInterval - since(r.sent); {
	case r.call != nil || r.timer != nil:
	case r.sent == 0 || wait <= 0:
		r.call = a.fetcher.reports.Add(a)
	default:
		r.timer = time.AfterFunc(wait, func() { r.onTimer(a) })
	}
}

// onTimer adds the progress to the next request, unless the attempt is over.
func (r *report) onTimer(a *Attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timer = nil
	if r.data != nil && r.call == nil && a.status.Load() == running {
		r.call = a.fetcher.reports.Add(a)
	}
}

// takeProgress returns the progress to send with the outcome, nil if there is none or it is stored.
// A request for it may be in flight; the outcome has the same or later progress.
func (a *Attempt) takeProgress() []byte {
	r := a.report.Load()
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
	if r.call != nil {
		a.fetcher.reports.Withdraw(r.call)
		r.call = nil
	}
	return r.data
}

// writeProgress sends a request with the progress of attempts.
func (f *Fetcher) writeProgress(attempts []*Attempt) {
	writes, seqs := make([]*rdb.ResultWrite, 0, len(attempts)), make([]int, 0, len(attempts))
	sent := attempts[:0]
	for _, a := range attempts {
		r := a.report.Load()
		r.mu.Lock()
		r.call = nil
		if r.data != nil {
			r.sent = uptime()
			sent, seqs = append(sent, a), append(seqs, r.seq)
			writes = append(writes, &rdb.ResultWrite{Queue: a.Queue, ID: a.settlement.ID, Token: a.Token, Result: r.data})
		}
		r.mu.Unlock()
	}
	f.cfg.Broker.WriteProgress(context.Background(), writes)
	var failed error
	for i, a := range sent {
		w, r := writes[i], a.report.Load()
		lost := w.Err == nil && w.Code != script.CodeOK
		r.mu.Lock()
		if r.err = w.Err; lost {
			r.err = ErrLeaseExpired
		}
		if w.Err == nil && r.seq == seqs[i] {
			r.data = nil
		}
		if r.data != nil && !lost && a.replied == nil && a.status.Load() == running {
			r.plan(a) // later progress, or the request failed
		}
		r.mu.Unlock()
		if w.Err != nil {
			failed = w.Err
		}
		if lost {
			f.loseLease(a)
		}
	}
	if failed != nil {
		f.reportLog.Do(func() {
			f.cfg.Log.Warn("progress not stored, retrying", "tasks", len(sent), "error", failed)
		})
	}
}
