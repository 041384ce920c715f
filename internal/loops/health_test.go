package loops

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestHealth(t *testing.T) {
	var reported []error
	answer := error(nil)
	h := &Health{
		Ping:     func(context.Context) error { return answer },
		Report:   func(err error) { reported = append(reported, err) },
		Interval: 15 * time.Second,
	}
	mustTick(t, h.Tick, 15*time.Second)
	answer = errCut
	mustTick(t, h.Tick, 15*time.Second) // an unreachable Redis is not a failure of the loop
	if len(reported) != 2 || reported[0] != nil || !errors.Is(reported[1], errCut) {
		t.Errorf("reported %v", reported)
	}
	ctx, cancel := context.WithCancel(context.Background())
	h.Ping = func(ctx context.Context) error {
		cancel()
		return ctx.Err()
	}
	if _, err := h.Tick(ctx); err != nil || len(reported) != 2 {
		t.Errorf("the shutdown was reported: %v, error %v", reported, err)
	}
}
