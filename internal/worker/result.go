package worker

import (
	"context"
	"sync"
	"time"

	"github.com/asynq-go/asynq/internal/batch"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/script"
)

const (
	// resultLinger is how long a result waits to share a request with others. If the attempt ends
	// before, the result is sent with its outcome.
	resultLinger = time.Millisecond
	// maxLingering is the maximum size of a result that waits.
	maxLingering = 64 << 10
)

// result is what the handler of an attempt wrote.
type result struct {
	mu     sync.Mutex
	data   []byte                // not stored in Redis; nil: none
	writes int                   // so far
	call   *batch.Call[*Attempt] // waits to be sent; nil: none
	err    error                 // of the last request
}

// newResults returns the batcher for the results of the lane. It sends one request after the other,
// so that a result cannot overwrite a later one.
func (f *Fetcher) newResults() *batch.Batcher[*Attempt] {
	return batch.New(batch.Config[*Attempt]{Send: f.writeResults, Linger: resultLinger, Panicked: func(err error) {
		f.cfg.Log.Error("request for results panicked", "error", err)
	}})
}

// WriteResult replaces the result of the task. It returns ErrLeaseExpired if the attempt is over or
// its lease is known to be lost. It keeps a small result of a handler in memory until it is stored,
// by a request of several attempts or with the outcome. Other results, it waits for.
func (a *Attempt) WriteResult(data []byte) error {
	if a.lost.Load() || a.status.Load() != running {
		return ErrLeaseExpired
	}
	r := a.result.Load()
	if r == nil {
		a.result.CompareAndSwap(nil, &result{})
		r = a.result.Load()
	}
	wait := len(data) > maxLingering || a.replied != nil
	r.mu.Lock()
	r.data = append([]byte{}, data...)
	r.writes++
	if r.call == nil && !wait {
		r.call = a.fetcher.results.Add(a)
	}
	r.mu.Unlock()
	if !wait {
		return nil
	}
	return a.FlushResult()
}

// FlushResult waits until the last result is stored, and returns the error of storing it.
func (a *Attempt) FlushResult() error {
	r := a.result.Load()
	if r == nil {
		return nil
	}
	r.mu.Lock()
	r.withdraw(a)
	stored, err := r.data == nil, r.err
	r.mu.Unlock()
	if stored {
		return err
	}
	if _, err := a.fetcher.results.Do(context.Background(), a); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// withdraw takes a waiting result back. The caller holds the lock.
func (r *result) withdraw(a *Attempt) {
	if r.call != nil {
		a.fetcher.results.Withdraw(r.call)
		r.call = nil
	}
}

// takeResult returns the result to send with the outcome, nil if there is none or it is stored. A
// request for it may be in flight; whichever comes first, the outcome has the same result.
func (a *Attempt) takeResult() []byte {
	r := a.result.Load()
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.withdraw(a)
	return r.data
}

// repeatResult adds a result that could not be stored to the next request.
func (a *Attempt) repeatResult() {
	r := a.result.Load()
	if r == nil || a.status.Load() != running {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.data != nil && r.call == nil {
		r.call = a.fetcher.results.Add(a)
	}
}

// writeResults sends a request with results.
func (f *Fetcher) writeResults(attempts []*Attempt) {
	writes, versions := make([]*rdb.ResultWrite, 0, len(attempts)), make([]int, 0, len(attempts))
	sent := attempts[:0]
	for _, a := range attempts {
		r := a.result.Load()
		r.mu.Lock()
		r.call = nil
		if r.data != nil {
			sent, versions = append(sent, a), append(versions, r.writes)
			writes = append(writes, &rdb.ResultWrite{Queue: a.Queue, ID: a.settlement.ID, Token: a.Token, Result: r.data})
		}
		r.mu.Unlock()
	}
	f.cfg.Broker.WriteResults(context.Background(), writes)
	var failed error
	for i, a := range sent {
		w, r := writes[i], a.result.Load()
		r.mu.Lock()
		if r.err = w.Err; w.Err == nil && r.writes == versions[i] {
			r.data = nil
		}
		lost := w.Err == nil && w.Code != script.CodeOK
		if lost {
			r.err = ErrLeaseExpired
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
		f.cfg.Log.Warn("results not stored, retrying", "tasks", len(sent), "error", failed)
	}
}
