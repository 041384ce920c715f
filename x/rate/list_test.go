package rate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

// List yields the buckets and semaphores that are in use, and ignores other keys.
func TestList(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		// A scope with characters that are escaped, on servers that other tests use, too.
		scope := t.Name() + ":%*[x]"
		l := NewLimiter(p.opt, scope, PerHour(2))
		s := NewSemaphore(p.opt, scope, 3)
		t.Cleanup(func() { closed(t, l.Close()); closed(t, s.Close()) })
		for range 3 { // the last call is rejected
			if _, _, err := l.take(ctx, "a:b", 1, true); err != nil {
				t.Fatal(err)
			}
		}
		if !s.acquires(t, "one", 60) || !s.acquires(t, "two", 120) {
			t.Fatal("no token")
		}
		bad := l.conn.bucketKey(scope, "bad")
		if err := l.conn.client.Set(ctx, bad, "text", time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		var found []string
		for state, err := range List(ctx, p.opt, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if state.Scope != scope {
				continue
			}
			found = append(found, fmt.Sprintf("%v %s %d %v", state.Semaphore, state.Key, state.Tokens, state.NextTurn.IsZero()))
			left := time.Until(state.Until)
			if state.Semaphore && (left < time.Minute || left > 3*time.Minute) || !state.Semaphore && (left < time.Minute || left > 3*time.Hour || time.Since(state.LastUsed) > time.Hour) {
				t.Errorf("%+v", state)
			}
		}
		slices.Sort(found)
		if want := []string{"false a:b 0 false", "true  2 true"}; !slices.Equal(found, want) {
			t.Errorf("got %q, want %q", found, want)
		}
	})
}

func TestListEnds(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		l := p.limiter(t, PerHour(2))
		for n := range 3 * scanPage {
			if err := l.conn.client.Set(t.Context(), l.conn.bucketKey(t.Name(), fmt.Sprint(n)), "1 1 1 1", time.Minute).Err(); err != nil {
				t.Fatal(err)
			}
			if p.mini != nil && n == 10 {
				break // its SCAN returns everything at once
			}
		}
		n := 0
		for state, err := range List(t.Context(), p.opt, 1) {
			if errors.Is(err, asynq.ErrScanLimit) && p.mini == nil {
				n = -1
				break
			}
			if err != nil || state == nil {
				t.Fatalf("%+v, error %v", state, err)
			}
			if p.mini != nil {
				n = -1
			}
		}
		if n != -1 {
			t.Error("the limit did not end the scan")
		}
		for _, err := range List(nil, p.opt, 0) { //nolint:staticcheck // a nil context is an error
			if err == nil {
				t.Error("no error of a nil context")
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for _, err := range List(ctx, p.opt, 0) {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
		}
	})
}
