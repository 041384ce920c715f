package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/asynq-go/asynq"
)

const (
	// claimFor is the time that a relay has for a batch. Longer is safe: the rows are sent again,
	// and their keys recognize them.
	claimFor = 30 * time.Second
	// sendFor limits the time for Redis, settleFor that for the database afterwards.
	sendFor   = 15 * time.Second
	settleFor = 10 * time.Second
	// shutdownGrace is how long a batch may continue after Shutdown.
	shutdownGrace = 5 * time.Second
	// purgeEvery is the time between searches for expired records of the inbox.
	purgeEvery = time.Hour
	// firstRetry and lastRetry are the delays of rows that Redis did not accept.
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// relayBatch moves one batch of rows to Redis. more reports that the batch was full. The error is
// the first one that is not about a single row.
func (r *Relay) relayBatch(ctx context.Context) (more bool, err error) {
	if err := r.removeUnfinished(ctx); err != nil {
		return false, err
	}
	if err := r.ping(ctx); err != nil {
		return false, err
	}
	working, cancel := withGrace(ctx, shutdownGrace)
	defer cancel()
	now := r.now()
	rows, err := r.box.claim(working, r.db, r.name, r.batchSize, now, now.Add(claimFor))
	if err != nil {
		return false, err
	}
	if len(rows) > 0 {
		if err := r.settle(working, r.send(working, rows, now)); err != nil {
			return false, err
		}
	}
	return len(rows) == r.batchSize || r.purge(ctx), nil
}

// withGrace returns a context that ends some time after ctx.
func withGrace(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	later, cancel := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	return later, cancel
}

// removeUnfinished deletes rows that the last batch could not delete. Without it, their tasks would
// only be sent again.
func (r *Relay) removeUnfinished(ctx context.Context) error {
	if err := r.box.remove(ctx, r.db, r.unfinished); err != nil {
		return err
	}
	r.unfinished = nil
	return nil
}

// ping checks Redis if it did not accept the last batch, so that an outage does not use up the
// attempts and keys of more and more rows.
func (r *Relay) ping(ctx context.Context) error {
	if !r.unreachable {
		return nil
	}
	reply := make(chan error, 1)
	go func() { reply <- r.client.Ping() }()
	select {
	case err := <-reply:
		if err != nil {
			return fmt.Errorf("outbox: Redis is unreachable, rows wait: %w", err)
		}
		r.unreachable = false
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// outcomes is the result of sending a batch.
type outcomes struct {
	done     []string         // in Redis, or expired
	failed   map[string]error // never to be sent
	retry    map[retry][]string
	rejected error // first error of retry
	sent     int   // rows of which Redis accepted or rejected the task
}

// retry is when and how rows are released.
type retry struct {
	delay  time.Duration
	unsent bool // no relay has sent them
}

// send enqueues the tasks of rows.
func (r *Relay) send(ctx context.Context, rows []*row, now time.Time) *outcomes {
	o := &outcomes{failed: make(map[string]error), retry: make(map[retry][]string)}
	var sending []*row
	var tasks []*asynq.Task
	for _, w := range rows {
		task, ttl, err := w.task(r.idempotencyTTL, now)
		age := now.Sub(w.firstSent)
		switch {
		case errors.Is(err, errExpired):
			r.log.Info("outbox row expired, deleting it", "table", r.box.outbox(), "row", w.id, "type", w.typename)
			o.done = append(o.done, w.id)
		case err != nil:
			o.failed[w.id] = err
		case age > ttl-ttl/10:
			o.failed[w.id] = fmt.Errorf("outbox: a relay may have enqueued the task %v ago, and its idempotency key (TTL %v) may have expired: "+
				"check whether task %s exists or has run, then discard or retry the row", age.Round(time.Second), ttl, w.id)
		default:
			sending, tasks = append(sending, w), append(tasks, task)
		}
	}
	if len(tasks) == 0 {
		return o
	}
	ctx, cancel := context.WithTimeout(ctx, sendFor)
	defer cancel()
	for i, result := range r.client.BatchEnqueueContext(ctx, tasks) {
		r.sort(o, sending[i], now, result)
	}
	return o
}

// sort adds the result of one row to the outcomes.
func (r *Relay) sort(o *outcomes, w *row, now time.Time, result asynq.BatchEnqueueResult) {
	switch err := result.Err; {
	case err == nil:
		o.sent++
		o.done = append(o.done, w.id)
		r.relayed.Add(1)
		if !w.isFirst(now) {
			r.repeated.Add(1)
		}
	case errors.Is(err, asynq.ErrDuplicateTask) && r.dropDuplicates:
		o.sent++
		o.done = append(o.done, w.id)
	case errors.Is(err, asynq.ErrDuplicateTask), errors.Is(err, asynq.ErrTaskIDConflict):
		o.sent++
		o.failed[w.id] = err
	default:
		if o.rejected == nil {
			o.rejected = err
		}
		// A full Redis has written nothing, so a row that was not sent before has not been sent.
		unsent := errors.Is(err, asynq.ErrRedisFull) && w.isFirst(now)
		key := retry{retryDelay(w.attempts), unsent}
		o.retry[key] = append(o.retry[key], w.id)
	}
}

// retryDelay returns how long a row waits after a number of attempts, so that rows that Redis does
// not accept do not delay others.
func retryDelay(attempts int) time.Duration {
	delay := firstRetry
	for ; attempts > 1 && delay < lastRetry; attempts-- {
		delay *= 2
	}
	return min(delay, lastRetry)
}

// settle stores the outcomes of a batch. If the database fails, the claims of the rows expire.
func (r *Relay) settle(ctx context.Context, o *outcomes) error {
	if r.afterSend != nil {
		r.afterSend()
	}
	ctx, cancel := context.WithTimeout(ctx, settleFor)
	defer cancel()
	r.unfinished = o.done
	err := r.removeUnfinished(ctx)
	now := r.now()
	for id, cause := range o.failed {
		r.log.Error("outbox row failed", "table", r.box.outbox(), "row", id, "error", cause)
		err = errors.Join(err, r.box.fail(ctx, r.db, r.name, id, now, cause))
	}
	for how, ids := range o.retry {
		err = errors.Join(err, r.box.release(ctx, r.db, r.name, ids, now.Add(how.delay), how.unsent))
	}
	r.unreachable = o.rejected != nil && o.sent == 0
	switch {
	case err != nil:
		return err
	case r.unreachable:
		return fmt.Errorf("outbox: Redis did not accept the tasks of any row, they wait: %w", o.rejected)
	case o.rejected != nil:
		r.log.Warn("Redis did not accept some tasks, their rows wait", "table", r.box.outbox(), "rows", o.waiting(), "error", o.rejected)
	}
	return nil
}

// waiting returns the number of rows to send again.
func (o *outcomes) waiting() (n int) {
	for _, ids := range o.retry {
		n += len(ids)
	}
	return n
}

// purge deletes a page of expired records of the inbox when due. It reports whether there are more.
func (r *Relay) purge(ctx context.Context) (more bool) {
	now := r.now()
	if r.inboxRetention < 0 || now.Before(r.nextPurge) {
		return false
	}
	n, err := r.box.purge(ctx, r.db, r.inboxRetention)
	if err != nil && ctx.Err() == nil {
		r.log.Warn("expired records of the inbox not deleted", "table", r.box.inbox(), "error", err)
	}
	if n == purgePage {
		return true
	}
	r.nextPurge = now.Add(purgeEvery)
	return false
}
