package outbox

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"
)

// rowColumns are the columns that a relay reads.
const rowColumns = "id, type, payload, headers, options, created_at, attempts, first_sent_at"

// claim reserves up to n waiting rows for a relay until a time, oldest first. No transaction stays
// open: if the relay dies, the rows wait until then.
func (b *Outbox) claim(ctx context.Context, db *sql.DB, relay string, n int, now, until time.Time) ([]*row, error) {
	var rows []*row
	var err error
	if b.dialect == MySQL {
		rows, err = b.claimLocked(ctx, db, relay, n, now, until)
	} else {
		rows, err = b.claimReturning(ctx, db, relay, n, now, until)
	}
	if err != nil {
		return nil, fmt.Errorf("outbox: claim rows of %s: %w", b.outbox(), err)
	}
	slices.SortFunc(rows, func(a, b *row) int { return cmp.Compare(a.id, b.id) })
	return rows, nil
}

// setClaim changes a row to claimed. attempts and first_sent_at are those after the claim.
const setClaim = " SET claimed_by = ?, claimed_until = ?, attempts = attempts + 1, " +
	"first_sent_at = CASE WHEN first_sent_at = 0 THEN ? ELSE first_sent_at END "

// claimReturning claims with one statement. In SQLite it has the write lock from the beginning.
func (b *Outbox) claimReturning(ctx context.Context, db *sql.DB, relay string, n int, now, until time.Time) ([]*row, error) {
	t := b.outbox()
	waiting := "SELECT id FROM " + t + " WHERE failed_at = 0 AND claimed_until <= ? ORDER BY id LIMIT ?"
	set := []any{relay, micros(until), micros(now)}
	which := []any{micros(now), n}
	if b.dialect == SQLite {
		return b.readRows(ctx, db, "UPDATE "+t+setClaim+"WHERE id IN ("+waiting+") RETURNING "+rowColumns, append(set, which...)...)
	}
	// Postgres might execute a subquery of IN several times, with more rows than its limit.
	return b.readRows(ctx, db, "WITH waiting (row_id) AS ("+waiting+" FOR UPDATE SKIP LOCKED) UPDATE "+t+setClaim+
		"FROM waiting WHERE id = row_id RETURNING "+rowColumns, append(which, set...)...)
}

// claimLocked claims with a transaction that locks the rows and then changes them.
func (b *Outbox) claimLocked(ctx context.Context, db *sql.DB, relay string, n int, now, until time.Time) (rows []*row, err error) {
	// With the default isolation level, the locks would cover the place of new rows.
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = tx.Rollback() // the first error counts
		}
	}()
	rows, err = b.readRows(ctx, tx, "SELECT "+rowColumns+" FROM "+b.outbox()+
		" WHERE failed_at = 0 AND claimed_until <= ? ORDER BY id LIMIT ? FOR UPDATE SKIP LOCKED", micros(now), n)
	if err != nil {
		return nil, err
	}
	if len(rows) > 0 {
		list, args := in(ids(rows))
		args = append([]any{relay, micros(until), micros(now)}, args...)
		if _, err := b.exec(ctx, tx, "UPDATE "+b.outbox()+setClaim+"WHERE id IN ("+list+")", args...); err != nil {
			return nil, err
		}
	}
	for _, r := range rows {
		r.attempts++
		if r.firstSent.IsZero() {
			r.firstSent = fromMicros(micros(now))
		}
	}
	return rows, tx.Commit()
}

// readRows executes a statement that returns the columns of rowColumns.
func (b *Outbox) readRows(ctx context.Context, db Tx, query string, args ...any) (found []*row, err error) {
	rows, err := db.QueryContext(ctx, b.dialect.rebind(query), args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		r := new(row)
		var created, sent int64
		if err := rows.Scan(&r.id, &r.typename, &r.payload, &r.headers, &r.options, &created, &r.attempts, &sent); err != nil {
			return nil, err
		}
		r.createdAt, r.firstSent = fromMicros(created), fromMicros(sent)
		found = append(found, r)
	}
	return found, rows.Err()
}

func ids(rows []*row) []string {
	list := make([]string, len(rows))
	for i, r := range rows {
		list[i] = r.id
	}
	return list
}

// remove deletes rows whose tasks are in Redis.
func (b *Outbox) remove(ctx context.Context, db Tx, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	list, args := in(ids)
	if _, err := b.exec(ctx, db, "DELETE FROM "+b.outbox()+" WHERE id IN ("+list+")", args...); err != nil {
		return fmt.Errorf("outbox: delete relayed rows of %s: %w", b.outbox(), err)
	}
	return nil
}

// release ends the claim of a relay to rows, which wait until a time. unsent says that no relay has
// sent them to Redis.
func (b *Outbox) release(ctx context.Context, db Tx, relay string, ids []string, until time.Time, unsent bool) error {
	set := "claimed_by = '', claimed_until = ?"
	if unsent {
		set += ", first_sent_at = 0"
	}
	list, args := in(ids)
	args = append(append([]any{micros(until)}, args...), relay)
	if _, err := b.exec(ctx, db, "UPDATE "+b.outbox()+" SET "+set+" WHERE id IN ("+list+") AND claimed_by = ?", args...); err != nil {
		return fmt.Errorf("outbox: release rows of %s: %w", b.outbox(), err)
	}
	return nil
}

// fail marks a claimed row as failed.
func (b *Outbox) fail(ctx context.Context, db Tx, relay, id string, now time.Time, cause error) error {
	_, err := b.exec(ctx, db, "UPDATE "+b.outbox()+" SET claimed_by = '', claimed_until = 0, failed_at = ?, error = ? WHERE id = ? AND claimed_by = ?",
		micros(now), errorText(cause), id, relay)
	if err != nil {
		return fmt.Errorf("outbox: mark row %s of %s as failed: %w", id, b.outbox(), err)
	}
	return nil
}
