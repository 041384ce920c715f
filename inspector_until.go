package asynq

import (
	"context"
	"fmt"
	"iter"
)

// until waits for f, which asks Redis, no longer than ctx: a command that is on its way heeds only the end of its own timeout, and Redis may
// be silent. What f goes on to use after that is its own.
func until[T any](ctx context.Context, f func() (T, error)) (T, error) {
	var none T
	if ctx.Done() == nil {
		return f()
	}
	if err := ctx.Err(); err != nil {
		return none, err
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		v, err := f()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		return none, noAnswer(ctx.Err())
	}
}

// untilDone is until for what has no result.
func untilDone(ctx context.Context, f func() error) error {
	_, err := until(ctx, func() (struct{}, error) { return struct{}{}, f() })
	return err
}

// untilEach goes through what seq yields, no longer than ctx. It is for what seldom yields: each step is handed over by a goroutine.
func untilEach[T any](ctx context.Context, seq iter.Seq2[T, error]) iter.Seq2[T, error] {
	if ctx.Done() == nil {
		return seq
	}
	return func(yield func(T, error) bool) {
		type step struct {
			value T
			err   error
		}
		steps, wanted, stop := make(chan step), make(chan struct{}), make(chan struct{})
		defer close(stop)
		go func() {
			defer close(steps)
			for v, err := range seq {
				select {
				case steps <- step{v, err}:
				case <-stop:
					return
				}
				select {
				case <-wanted: // nothing more is done before the loop over it asks for more
				case <-stop:
					return
				}
			}
		}()
		for {
			select {
			case s, more := <-steps:
				if !more || !yield(s.value, s.err) {
					return
				}
			case <-ctx.Done():
				var none T
				yield(none, noAnswer(context.Cause(ctx)))
				return
			}
			select {
			case wanted <- struct{}{}:
			case <-ctx.Done(): // is told above
			}
		}
	}
}

func noAnswer(why error) error { return fmt.Errorf("no answer from Redis: %w", why) }
