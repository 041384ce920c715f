package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
)

// Tx is a transaction: a *sql.Tx, or a value of another library that executes SQL in one. A *sql.DB
// is accepted, too: then the row is committed at once, by itself.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Option configures an Outbox.
type Option func(*settings)

type settings struct {
	prefix string
	notify bool
}

// WithTablePrefix sets the first part of the names of the tables. The default is "asynq_", for the
// tables asynq_outbox and asynq_inbox. It may contain letters, digits and underscores, up to 32,
// and must not begin with a digit. Several outboxes of a database need different prefixes.
func WithTablePrefix(prefix string) Option { return func(s *settings) { s.prefix = prefix } }

// WithNotify makes Enqueue send a notification, with NOTIFY, that Postgres delivers to listening
// connections when the transaction commits: see WithListener. It costs no round trip, but Postgres
// commits transactions with notifications one after the other, so it is off by default. It has no
// effect with other dialects.
func WithNotify() Option { return func(s *settings) { s.notify = true } }

// validPrefix keeps statements valid without quotes, and names shorter than 63 bytes.
var validPrefix = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,31}$`)

// newSettings panics if an option is invalid.
func newSettings(opts []Option) settings {
	s := settings{prefix: "asynq_"}
	for _, opt := range opts {
		if opt != nil {
			opt(&s)
		}
	}
	if s.prefix != "" && !validPrefix.MatchString(s.prefix) {
		panic(fmt.Sprintf("outbox: invalid table prefix %q: use up to 32 letters, digits and underscores, a digit not first", s.prefix))
	}
	return s
}

func (s *settings) outbox() string { return s.prefix + "outbox" }
func (s *settings) inbox() string  { return s.prefix + "inbox" }

// Outbox writes tasks into a table, from which relays move them to Redis. It holds no connection
// and is safe for concurrent use.
type Outbox struct {
	settings
	dialect Dialect
	insert  string
	now     func() time.Time
}

// New returns an outbox for databases of a dialect. The tables must exist: see Schema. New panics
// if an argument is invalid.
func New(d Dialect, opts ...Option) *Outbox {
	d.validate()
	b := &Outbox{settings: newSettings(opts), dialect: d, now: time.Now}
	b.insert = "INSERT INTO " + b.outbox() + " (id, type, payload, headers, options, created_at) "
	if b.notify && d == Postgres {
		b.insert += "SELECT CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS BYTEA), CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS BIGINT) " +
			"FROM (SELECT pg_notify('" + b.Channel() + "', '')) AS notified"
	} else {
		b.insert += "VALUES (?, ?, ?, ?, ?, ?)"
	}
	b.insert = d.rebind(b.insert)
	return b
}

// Dialect returns the dialect.
func (b *Outbox) Dialect() Dialect { return b.dialect }

// Channel returns the name of the channel on which Postgres delivers notifications: see WithNotify.
// It is in lower case, as LISTEN reads names without quotes.
func (b *Outbox) Channel() string { return strings.ToLower(b.outbox()) }

// Enqueue adds a task to the outbox, in the transaction tx. It becomes a task in Redis after tx has
// committed, and never if tx is rolled back. opts override the options of NewTask.
//
// The ID of the task is a new UUID unless TaskID is given. ProcessIn and ExpiresIn count from this
// call. With IdempotencyKey, rows with the same key become one task. Options that exclude
// IdempotencyKey are errors: Debounce, Throttle, and OnDuplicate with a policy other than Reject.
// Unique, UniqueKey and TaskID are checked when a relay enqueues the task: a row that Redis then
// rejects is a failed row, see Outbox.Failed.
//
// It returns an error if the task or an option is invalid, or the error of the database, after
// which Postgres accepts no further statements in the transaction.
func (b *Outbox) Enqueue(ctx context.Context, tx Tx, task *asynq.Task, opts ...asynq.Option) error {
	if tx == nil {
		return errors.New("outbox: tx must not be nil: begin a transaction")
	}
	r, err := newRow(task, opts, b.now())
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, b.insert, r.id, r.typename, r.payload, r.headers, r.options, micros(r.createdAt)); err != nil {
		return fmt.Errorf("outbox: write the task into %s: %w", b.outbox(), err)
	}
	return nil
}

// micros returns a time in microseconds since 1970, and 0 for the zero time.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// fromMicros is the inverse of micros.
func fromMicros(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us)
}
