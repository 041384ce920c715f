package shared_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynq-go/asynq/x/web/internal/shared"
)

func value(t *testing.T, ask func(ctx context.Context, partial func(*int)) (*int, error)) *shared.Value[int] {
	v := shared.New(shared.Config[int]{
		Name: "a number", Ask: ask, Fresh: 15 * time.Second, Wait: time.Second, Timeout: 10 * time.Second, Logger: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(v.Close)
	return v
}

func get(t *testing.T, v *shared.Value[int]) int {
	t.Helper()
	n, err := v.Get(t.Context())
	if n == nil || err != nil {
		t.Fatalf("got %v, %v", n, err)
	}
	return *n
}

func TestAskedOnceForAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		v := value(t, func(context.Context, func(*int)) (*int, error) {
			time.Sleep(100 * time.Millisecond)
			n := int(asked.Add(1))
			return &n, nil
		})
		for range 10 {
			go func() { _, _ = v.Get(t.Context()) }()
		}
		if n := get(t, v); n != 1 {
			t.Errorf("the first is %d", n)
		}
		time.Sleep(14 * time.Second)
		get(t, v)
		synctest.Wait()
		if asked.Load() != 1 {
			t.Errorf("asked %d times within 15 s", asked.Load())
		}
		time.Sleep(2 * time.Second)
		if n := get(t, v); n != 1 {
			t.Errorf("the old value is not returned while a new one is computed: %d", n)
		}
		time.Sleep(time.Second)
		if n := get(t, v); n != 2 {
			t.Errorf("after 15 s it is %d", n)
		}
		v.Stale()
		get(t, v)
		time.Sleep(time.Second)
		if n := get(t, v); n != 3 {
			t.Errorf("after Stale it is %d", n)
		}
		v.Close()
		v.Stale()
		if n := get(t, v); n != 3 {
			t.Errorf("after Close it is %d", n)
		}
	})
}

func TestWhatIsSlowIsNotAskedAllTheTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		v := value(t, func(context.Context, func(*int)) (*int, error) {
			time.Sleep(8 * time.Second)
			n := int(asked.Add(1))
			return &n, nil
		})
		for range 100 { // a hundred seconds
			_, _ = v.Get(t.Context())
			time.Sleep(time.Second)
		}
		if asked.Load() > 3 {
			t.Errorf("asked %d times in 100 s, 8 s each", asked.Load())
		}
	})
}

func TestPartsAreToldMeanwhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := value(t, func(_ context.Context, partial func(*int)) (*int, error) {
			part, whole := 1, 2
			partial(&part)
			time.Sleep(5 * time.Second)
			return &whole, nil
		})
		began := time.Now()
		if n := get(t, v); n != 1 || time.Since(began) != time.Second {
			t.Errorf("got %d after %v", n, time.Since(began))
		}
		time.Sleep(5 * time.Second)
		if n := get(t, v); n != 2 {
			t.Errorf("in the end it is %d", n)
		}
	})
}

func TestErrorsAndPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked, broken := 0, errors.New("broken")
		v := value(t, func(ctx context.Context, _ func(*int)) (*int, error) {
			switch asked++; asked {
			case 1:
				return nil, broken
			case 2:
				panic("no")
			case 3:
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return &asked, nil
		})
		if n, err := v.Get(t.Context()); n != nil || !errors.Is(err, broken) {
			t.Errorf("got %v, %v", n, err)
		}
		time.Sleep(3 * time.Second)
		if n, err := v.Get(t.Context()); n != nil || err == nil || err.Error() != "panic: no" {
			t.Errorf("got %v, %v", n, err)
		}
		time.Sleep(3 * time.Second)
		_, _ = v.Get(t.Context())
		v.Close()
		if asked != 3 {
			t.Errorf("asked %d times", asked)
		}
	})
}
