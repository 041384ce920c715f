package loops

import (
	"context"
	"time"
)

// Health reports to the user whether Redis is reachable.
type Health struct {
	Ping     func(ctx context.Context) error
	Report   func(err error) // user code, may panic
	Interval time.Duration
}

// Tick pings Redis and reports the result.
func (h *Health) Tick(ctx context.Context) (time.Duration, error) {
	err := h.Ping(ctx)
	if ctx.Err() != nil {
		return h.Interval, nil // the server shuts down, so the error says nothing about Redis
	}
	h.Report(err)
	return h.Interval, nil
}
