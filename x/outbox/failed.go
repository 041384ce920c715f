package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"
)

// FailedRow is a row that relays do not send: Redis rejected its task permanently, it cannot be
// read, or it may have been sent before and its idempotency key has expired.
type FailedRow struct {
	ID        string
	Type      string
	Payload   []byte
	Headers   map[string]string // nil if there are none, or the column is malformed
	Options   []string          // as asynq.FormatOption returns them; nil if the column is malformed
	CreatedAt time.Time         // when Enqueue was called
	FailedAt  time.Time
	Attempts  int    // how often relays claimed the row
	Err       string // why it failed, and what to do
}

// failedPage is the number of failed rows that are read at a time.
const failedPage = 100

// Failed yields the failed rows, oldest first. It reads pages of 100, so rows that fail meanwhile
// may or may not be yielded. After an error it yields nothing more.
func (b *Outbox) Failed(ctx context.Context, db Tx) iter.Seq2[FailedRow, error] {
	return func(yield func(FailedRow, error) bool) {
		after := ""
		for {
			page, err := b.failedAfter(ctx, db, after)
			if err != nil {
				yield(FailedRow{}, fmt.Errorf("outbox: list failed rows of %s: %w", b.outbox(), err))
				return
			}
			for _, r := range page {
				if !yield(r, nil) {
					return
				}
				after = r.ID
			}
			if len(page) < failedPage {
				return
			}
		}
	}
}

func (b *Outbox) failedAfter(ctx context.Context, db Tx, after string) (page []FailedRow, err error) {
	rows, err := db.QueryContext(ctx, b.dialect.rebind("SELECT id, type, payload, headers, options, created_at, failed_at, attempts, error FROM "+
		b.outbox()+" WHERE failed_at > 0 AND id > ? ORDER BY id LIMIT ?"), after, failedPage)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var r FailedRow
		var headers, options []byte
		var created, failed int64
		if err := rows.Scan(&r.ID, &r.Type, &r.Payload, &headers, &options, &created, &failed, &r.Attempts, &r.Err); err != nil {
			return nil, err
		}
		r.CreatedAt, r.FailedAt = fromMicros(created), fromMicros(failed)
		if json.Unmarshal(headers, &r.Headers) != nil || len(r.Headers) == 0 {
			r.Headers = nil
		}
		if json.Unmarshal(options, &r.Options) != nil {
			r.Options = nil
		}
		page = append(page, r)
	}
	return page, rows.Err()
}

// Retry makes failed rows wait for a relay again, and returns their number. IDs of other rows are
// ignored. A row that failed because it may have been sent before is sent in any case, so check
// first that its task does not exist and has not run.
func (b *Outbox) Retry(ctx context.Context, db Tx, ids ...string) (int64, error) {
	return b.changeFailed(ctx, db, "UPDATE "+b.outbox()+" SET failed_at = 0, error = '', attempts = 0, first_sent_at = 0, claimed_until = 0", ids)
}

// Discard deletes failed rows, and returns their number. IDs of other rows are ignored.
func (b *Outbox) Discard(ctx context.Context, db Tx, ids ...string) (int64, error) {
	return b.changeFailed(ctx, db, "DELETE FROM "+b.outbox(), ids)
}

// changePage is the number of failed rows that one statement changes.
const changePage = 500

func (b *Outbox) changeFailed(ctx context.Context, db Tx, change string, ids []string) (changed int64, err error) {
	for len(ids) > 0 {
		page := ids[:min(len(ids), changePage)]
		ids = ids[len(page):]
		list, args := in(page)
		n, err := b.exec(ctx, db, change+" WHERE failed_at > 0 AND id IN ("+list+")", args...)
		if changed += n; err != nil {
			return changed, fmt.Errorf("outbox: change failed rows of %s: %w", b.outbox(), err)
		}
	}
	return changed, nil
}
