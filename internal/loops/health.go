package loops

import (
	"context"
	"time"
)

// Health tells the user whether Redis answers.
type Health struct {
	Ping     func(ctx context.Context) error
	Report   func(err error) // the user's: may panic
	Interval time.Duration
}

// Tick asks, and reports.
func (h *Health) Tick(ctx context.Context) (time.Duration, error) {
	err := h.Ping(ctx)
	if ctx.Err() != nil {
		return h.Interval, nil // the server shuts down: that says nothing about Redis
	}
	h.Report(err)
	return h.Interval, nil
}
