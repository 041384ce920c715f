package site

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// lookEvery is how often a state is looked at that tells nobody of its changes.
const lookEvery = 20 * time.Millisecond

// final is an error that does not go away by waiting.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// until waits for a state: look returns nil once it is there, and before that what is missing. It ends with the last of these
// when the context does, or after patience.
func until(ctx context.Context, what string, look func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ticker := time.NewTicker(lookEvery)
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
			missing = err // what a look says that was cut short says nothing
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
