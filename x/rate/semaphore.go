package rate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/asynq-go/asynq"
)

var (
	// ErrNoHandler says that a context is not one that a handler was given, or has no deadline: nothing tells whose token it is about,
	// or until when.
	ErrNoHandler = errors.New("rate: the context must be that of a handler, with a deadline: pass on what ProcessTask was given")

	// ErrNoToken says that a task has no token to release: it never got one, or its deadline is over.
	ErrNoToken = errors.New("rate: the task holds no token")
)

// Semaphore lets a number of tasks run at a time, over all processes that use the same scope. A token belongs to a task, and is
// free again when the task releases it or its deadline is over: so what a process that died held comes back. It is safe for
// concurrent use, and shares its tokens with the semaphores of existing processes on the same wire format.
type Semaphore struct {
	conn connection
	key  string
	max  int
}

// NewSemaphore returns a semaphore with maxTokens tokens for a scope, a name of any kind. It panics if rco cannot make a connection,
// the scope is blank, or maxTokens is less than 1.
func NewSemaphore(rco asynq.RedisConnOpt, scope string, maxTokens int) *Semaphore {
	mustScope(scope)
	if maxTokens < 1 {
		panic(fmt.Sprintf("rate: %d tokens: a semaphore needs at least one", maxTokens))
	}
	conn := connect(rco)
	return &Semaphore{conn: conn, key: conn.semaphoreKey(scope), max: maxTokens}
}

// Acquire reports whether the task of a handler's ctx may go on. If so it holds a token, until Release or its deadline, also if it
// held one before; if not, it should return asynq.Snooze. Acquire does not wait. The error is ErrNoHandler (errors.Is), or why Redis
// gave no answer: the task may hold a token then.
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

// semaphoreKeep is how long after the last deadline the key stays. A process of another library adds tokens without a TTL, and those
// may have later deadlines than all that were known when it was set.
const semaphoreKeep = 30 * 24 * time.Hour

func (s *Semaphore) acquire(ctx context.Context, id string, left time.Duration) (bool, error) {
	n, err := acquireScript.Run(ctx, s.conn.client, []string{s.key},
		id, left.Milliseconds(), s.max, int64(semaphoreKeep/time.Second)).Int()
	if err != nil {
		return false, fmt.Errorf("rate: acquiring a token: %w", err)
	}
	return n == 1, nil
}

// Release gives the token of the task of a handler's ctx back, also when ctx has ended. It fails with ErrNoHandler or ErrNoToken
// (errors.Is), or if Redis gives no answer: then the token is free when the task's deadline is over.
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
		return fmt.Errorf("rate: releasing a token: %w", err)
	}
	if n == 0 {
		return fmt.Errorf("%w: %s", ErrNoToken, id)
	}
	return nil
}

// Close closes the connection. It fails if that is not the semaphore's own.
func (s *Semaphore) Close() error { return s.conn.close() }

// holder tells whose token it is about, and until when.
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
