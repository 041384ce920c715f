package site

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// pollInterval is the poll interval of states.
const pollInterval = 20 * time.Millisecond

// final is a permanent error.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// until polls a state: look returns nil when it is reached, and otherwise an error that names the
// missing condition. until returns the last of these errors when the context is done or the timeout
// has passed.
func until(ctx context.Context, what string, look func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	var missing error
	for {
		err := look(ctx)
		var end final
		switch {
		case err == nil:
			return nil
		case errors.As(err, &end):
			return err
		case ctx.Err() == nil || missing == nil:
			missing = err // ignore the error of an aborted check
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w: %w", what, ctx.Err(), missing)
		case <-ticker.C:
		}
	}
}

// pause waits for d.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
