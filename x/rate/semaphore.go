package rate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/asynq-go/asynq"
)

var (
	// ErrNoHandler is returned if a context is not that of a handler, or has no deadline: the owner
	// of the token, or its expiry, is unknown.
	ErrNoHandler = errors.New("rate: the context must be that of a handler, with a deadline")

	// ErrNoToken is returned if a task has no token to release, because it never got one or its
	// deadline has passed.
	ErrNoToken = errors.New("rate: the task holds no token")
)

// Semaphore limits the number of tasks that run at a time, across all processes that use the same
// scope. A token belongs to a task. It is free again when the task releases it, or when the task's
// deadline has passed, so that tokens of crashed processes return. It is safe for concurrent use,
// and compatible with the semaphores of github.com/hibiken/asynq.
type Semaphore struct {
	conn connection
	key  string
	max  int
}

// NewSemaphore returns a semaphore with maxTokens tokens for a scope, which may be any name. It
// panics if rco cannot make a connection, the scope is blank, or maxTokens is less than 1.
func NewSemaphore(rco asynq.RedisConnOpt, scope string, maxTokens int) *Semaphore {
	mustScope(scope)
	if maxTokens < 1 {
		panic(fmt.Sprintf("rate: %d tokens: a semaphore needs at least one", maxTokens))
	}
	conn := connect(rco)
	return &Semaphore{conn: conn, key: conn.semaphoreKey(scope), max: maxTokens}
}

// Acquire takes a token for the task of a handler's ctx. It reports true if the task has a token,
// also from an earlier call, until Release or its deadline. If it reports false, the handler should
// return asynq.Snooze. Acquire does not wait. The error is ErrNoHandler (use errors.Is), or that of
// Redis; the task may have a token then.
func (s *Semaphore) Acquire(ctx context.Context) (bool, error) {
	id, deadline, err := holder(ctx)
	if err != nil {
		return false, err
	}
	left := time.Until(deadline)
	if err := ctx.Err(); err != nil || left <= 0 {
		return false, fmt.Errorf("rate: the task has no time left: %w", context.DeadlineExceeded)
	}
	return s.acquire(ctx, id, left)
}

// semaphoreKeep is how long the key lasts after the last deadline. Processes of other libraries add
// tokens without a TTL, whose deadlines may be later than those known when the TTL was set.
const semaphoreKeep = 30 * 24 * time.Hour

func (s *Semaphore) acquire(ctx context.Context, id string, left time.Duration) (bool, error) {
	n, err := acquireScript.Run(ctx, s.conn.client, []string{s.key},
		id, left.Milliseconds(), s.max, int64(semaphoreKeep/time.Second)).Int()
	if err != nil {
		return false, fmt.Errorf("rate: acquire a token: %w", err)
	}
	return n == 1, nil
}

// Release releases the token of the task of a handler's ctx, even if ctx has ended. It returns
// ErrNoHandler or ErrNoToken (use errors.Is), or the error of Redis: the token is free when the
// task's deadline has passed then.
func (s *Semaphore) Release(ctx context.Context) error {
	id, _, err := holder(ctx)
	if err != nil {
		return err
	}
	return s.release(context.WithoutCancel(ctx), id)
}

func (s *Semaphore) release(ctx context.Context, id string) error {
	n, err := s.conn.client.ZRem(ctx, s.key, id).Result()
	if err != nil {
		return fmt.Errorf("rate: release a token: %w", err)
	}
	if n == 0 {
		return fmt.Errorf("%w: %s", ErrNoToken, id)
	}
	return nil
}

// Close closes the connection. It returns an error if the semaphore does not own the connection.
func (s *Semaphore) Close() error { return s.conn.close() }

// holder returns the owner of a token, and its expiry.
func holder(ctx context.Context) (id string, deadline time.Time, err error) {
	if ctx == nil {
		return "", time.Time{}, ErrNoHandler
	}
	id, known := asynq.GetTaskID(ctx)
	deadline, ends := ctx.Deadline()
	if !known || !ends {
		return "", time.Time{}, ErrNoHandler
	}
	return id, deadline, nil
}
