package worker

import (
	"errors"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
)

// logAttempt adds an entry for a failed attempt to the settlement, if logs are kept. The message
// has the error, and is encoded afterwards.
func (f *Fetcher) logAttempt(a *Attempt, err error) {
	s := &a.settlement
	if f.cfg.AttemptLog <= 0 || s.Outcome == rdb.Defer {
		return
	}
	now := time.Now()
	e := wire.Attempt{
		Number:  a.Retried + a.Message.Archived(),
		Started: a.Started.UnixMilli(), Ended: now.UnixMilli(), Kind: a.kind(err, now), Server: f.cfg.Holder(a),
		Err: a.Message.LastErr,
	}
	if s.Extra == nil {
		s.Extra = &rdb.Extra{}
	}
	s.Extra.Attempt, s.Extra.Number, s.Extra.LogSize = e.Encode(), e.Number, f.cfg.AttemptLog
	if s.Outcome == rdb.Archive {
		a.Message.CountArchived()
	}
}

// kind classifies the error of an attempt that failed now.
func (a *Attempt) kind(err error, now time.Time) string {
	_, panicked := err.(*PanicError) //nolint:errorlint // Ours, as in fail.
	cause := a.context.canceledBy()
	switch {
	case panicked:
		return wire.AttemptPanicked
	case errors.Is(err, ErrStuck):
		return wire.AttemptStuck
	case errors.Is(cause, ErrCanceled):
		return wire.AttemptCanceled
	case errors.Is(cause, ErrLeaseExpired):
		return wire.AttemptLeaseExpired
	case !a.Deadline.IsZero() && !now.Before(a.Deadline):
		return wire.AttemptTimedOut
	default:
		return wire.AttemptFailed
	}
}
