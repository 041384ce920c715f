package outbox

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynq-go/asynq"
)

// The defaults of a relay.
const (
	defaultIdempotencyTTL = 24 * time.Hour
	defaultPollInterval   = time.Second
	defaultInboxRetention = 30 * 24 * time.Hour
	defaultBatchSize      = 500
)

// minIdempotencyTTL is long enough for the retries of a short outage.
const minIdempotencyTTL = 10 * time.Minute

// RelayOption configures a Relay.
type RelayOption func(*Relay)

// WithIdempotencyTTL sets how long Redis keeps the key by which it recognizes a row that is sent
// again. Each task occupies about 230 bytes more for that time. A row that a relay may have sent,
// and that no relay could finish within nine tenths of the TTL, as in a long outage of the
// database, becomes a failed row. The default is 24 hours, the minimum 10 minutes.
func WithIdempotencyTTL(ttl time.Duration) RelayOption {
	return func(r *Relay) { r.idempotencyTTL = ttl }
}

// WithPollInterval sets how often an idle relay reads the table. Notify does not wait for the next
// poll. The default is one second.
func WithPollInterval(d time.Duration) RelayOption { return func(r *Relay) { r.pollInterval = d } }

// WithBatchSize sets how many rows a relay reads and sends at a time, and holds in memory. The
// default and the maximum are 500; use less if payloads are large.
func WithBatchSize(n int) RelayOption { return func(r *Relay) { r.batchSize = n } }

// WithInboxRetention sets how long the records of Outbox.Once are kept. It must be longer than the
// time from the first to the last attempt of a task. The default is 30 days. If it is negative, the
// relay deletes none.
func WithInboxRetention(d time.Duration) RelayOption { return func(r *Relay) { r.inboxRetention = d } }

// WithDropDuplicates deletes rows whose tasks Redis rejects with asynq.ErrDuplicateTask, because
// another task holds the lock of the option Unique. By default they become failed rows.
func WithDropDuplicates() RelayOption { return func(r *Relay) { r.dropDuplicates = true } }

// WithListener sets a function that calls notify when rows may have been committed, for example for
// each notification of Postgres (see WithNotify), and once when it is ready to receive them. It
// runs until ctx ends. If it returns earlier, it is called again, at first after a second, then
// after up to 30.
func WithListener(listen func(ctx context.Context, notify func()) error) RelayOption {
	return func(r *Relay) { r.listen = listen }
}

// WithLogger sets the logger. If nil or not set, slog.Default() is used.
func WithLogger(log *slog.Logger) RelayOption { return func(r *Relay) { r.log = log } }

// Relay moves rows of an outbox to Redis. Any number of relays may run, in one process or in many.
// The clocks of their hosts may differ by a tenth of the idempotency TTL.
type Relay struct {
	box    *Outbox
	db     *sql.DB
	client *asynq.Client
	name   string // unique
	now    func() time.Time

	idempotencyTTL, pollInterval, inboxRetention time.Duration
	batchSize                                    int
	dropDuplicates                               bool
	listen                                       func(ctx context.Context, notify func()) error
	log                                          *slog.Logger

	wake              chan struct{}
	relayed, repeated atomic.Uint64
	unfinished        []string // rows whose tasks are in Redis, but that could not be deleted
	unreachable       bool     // Redis did not accept the last batch
	nextPurge         time.Time
	mu                sync.Mutex // guards the fields below
	started, shut     bool
	stop              context.CancelFunc
	running           sync.WaitGroup
	afterSend         func() // for tests; nil otherwise
}

// NewRelay returns a relay for the rows of box in db. db and client remain the caller's; they must
// stay open until Shutdown has returned. It panics if box, db or client is nil, or an option is
// invalid.
func NewRelay(box *Outbox, db *sql.DB, client *asynq.Client, opts ...RelayOption) *Relay {
	if box == nil || db == nil || client == nil {
		panic("outbox: NewRelay needs an outbox, a database and a client: none may be nil")
	}
	host, _ := os.Hostname() // only for readers of the table
	r := &Relay{
		box: box, db: db, client: client, now: box.now,
		name:           fmt.Sprintf("%.64s:%d:%s", host, os.Getpid(), rand.Text()),
		idempotencyTTL: defaultIdempotencyTTL, pollInterval: defaultPollInterval, inboxRetention: defaultInboxRetention,
		batchSize: defaultBatchSize, wake: make(chan struct{}, 1),
	}
	for _, opt := range opts {
		if opt != nil {
			opt(r)
		}
	}
	switch {
	case r.idempotencyTTL < minIdempotencyTTL:
		panic(fmt.Sprintf("outbox: WithIdempotencyTTL(%v): must be at least %v", r.idempotencyTTL, minIdempotencyTTL))
	case r.pollInterval <= 0:
		panic(fmt.Sprintf("outbox: WithPollInterval(%v): must be positive", r.pollInterval))
	case r.batchSize < 1 || r.batchSize > defaultBatchSize:
		panic(fmt.Sprintf("outbox: WithBatchSize(%d): must be between 1 and %d", r.batchSize, defaultBatchSize))
	}
	if r.log == nil {
		r.log = slog.Default()
	}
	return r
}

// Notify wakes an idle relay: call it after a commit. It returns at once. If the relay is waiting
// after an error, it has no effect.
func (r *Relay) Notify() {
	select {
	case r.wake <- struct{}{}:
	default: // a notification is pending
	}
}

// Start starts the relay in the background. It does not check the connections: errors are logged,
// and the relay retries until Shutdown. It returns an error if the relay was started or shut down
// before.
func (r *Relay) Start() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.shut:
		return errors.New("outbox: the relay was shut down: create a new one")
	case r.started:
		return errors.New("outbox: the relay is already running")
	}
	r.started = true
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	r.running.Go(func() { r.run(ctx) })
	if r.listen != nil {
		r.running.Go(func() { r.runListener(ctx) })
	}
	return nil
}

// Shutdown stops the relay and waits until it has finished its current batch, for a few seconds if
// Redis or the database does not reply. Rows that are not finished wait for other relays. Repeated
// calls have no effect. It does not close the database or the client.
func (r *Relay) Shutdown() {
	r.mu.Lock()
	r.shut = true
	stop := r.stop
	r.mu.Unlock()
	if stop != nil {
		stop()
	}
	r.running.Wait()
}

// Stats returns the figures of the outbox and the counters of the relay. See Outbox.Stats for its
// cost.
func (r *Relay) Stats(ctx context.Context) (Stats, error) {
	s, err := r.box.Stats(ctx, r.db)
	if err != nil {
		return Stats{}, err
	}
	s.Relayed, s.Repeated = r.relayed.Load(), r.repeated.Load()
	return s, nil
}

// The delays after errors: each is twice as long as the one before.
const (
	firstBackoff = 100 * time.Millisecond
	lastBackoff  = 10 * time.Second

	firstListenBackoff = time.Second
	lastListenBackoff  = 30 * time.Second
)

// run moves batches until ctx ends. Only a full batch is followed by another one at once.
func (r *Relay) run(ctx context.Context) {
	failures := backoff{first: firstBackoff, last: lastBackoff}
	poll := time.NewTimer(0)
	defer poll.Stop()
	for {
		wake := r.wake
		more, err := r.relayBatch(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			wait := failures.next()
			r.log.Error("outbox relay failed, retrying", "table", r.box.outbox(), "retry_in", wait, "error", err)
			poll.Reset(wait)
			wake = nil
		case more:
			failures.reset()
			continue
		default:
			failures.reset()
			poll.Reset(r.pollInterval)
		}
		select {
		case <-ctx.Done():
			return
		case <-wake:
		case <-poll.C:
		}
	}
}

// runListener runs the listener until ctx ends.
func (r *Relay) runListener(ctx context.Context) {
	failures := backoff{first: firstListenBackoff, last: lastListenBackoff}
	for ctx.Err() == nil {
		began := time.Now()
		err := r.listen(ctx, r.Notify)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > lastListenBackoff {
			failures.reset()
		}
		wait := failures.next()
		r.log.Warn("outbox listener ended, restarting it", "restart_in", wait, "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// backoff returns growing delays.
type backoff struct{ first, last, now time.Duration }

func (b *backoff) next() time.Duration {
	b.now = min(max(b.first, 2*b.now), b.last)
	return b.now
}

func (b *backoff) reset() { b.now = 0 }
