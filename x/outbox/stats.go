package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Stats are the figures of an outbox.
type Stats struct {
	Waiting int           // rows that are not failed, including claimed ones
	Claimed int           // rows that relays are sending
	Failed  int           // failed rows, see Outbox.Failed
	Lag     time.Duration // age of the oldest waiting row; zero if there is none

	// Counters of one Relay since it was created; zero in the result of Outbox.Stats.
	Relayed  uint64 // rows whose tasks are in Redis, including repeated ones
	Repeated uint64 // rows of Relayed that may have been sent before, as by a relay that crashed
}

// Stats counts the rows of the table. It scans them, so it takes longer the more rows there are.
func (b *Outbox) Stats(ctx context.Context, db Tx) (Stats, error) {
	var s Stats
	now := b.now()
	var oldest int64
	err := b.count(ctx, db, "SELECT COUNT(*), COALESCE(SUM(CASE WHEN claimed_by <> '' AND claimed_until > ? THEN 1 ELSE 0 END), 0), "+
		"COALESCE(MIN(created_at), 0) FROM "+b.outbox()+" WHERE failed_at = 0", []any{micros(now)}, &s.Waiting, &s.Claimed, &oldest)
	if err == nil {
		err = b.count(ctx, db, "SELECT COUNT(*) FROM "+b.outbox()+" WHERE failed_at > 0", nil, &s.Failed)
	}
	if err != nil {
		return Stats{}, fmt.Errorf("outbox: count rows of %s: %w", b.outbox(), err)
	}
	if s.Waiting > 0 {
		s.Lag = max(now.Sub(fromMicros(oldest)), 0)
	}
	return s, nil
}

// count reads the only row of a query.
func (b *Outbox) count(ctx context.Context, db Tx, query string, args []any, into ...any) (err error) {
	rows, err := db.QueryContext(ctx, b.dialect.rebind(query), args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	if !rows.Next() {
		return errors.Join(errors.New("the database returned no row"), rows.Err())
	}
	return rows.Scan(into...)
}
