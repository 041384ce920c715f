package outbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/asynq-go/asynq"
)

// Once records in the transaction tx that the task of a handler has had its effects, and reports
// whether this is the first time. If it returns false, an earlier attempt has committed: the
// handler does nothing and returns nil. So effects in the same database happen once, although a
// crashed worker's task runs again:
//
//	fresh, err := box.Once(ctx, tx, task)
//	if err != nil || !fresh {
//		return err
//	}
//	… // change the database in tx
//	return tx.Commit()
//
// ctx must be the context of the handler, or derived from it: Once identifies the task by its queue
// and ID. So a task ID must not be used for a second task of the same queue while the record is
// kept: see WithInboxRetention. Without a TaskID option, IDs are unique.
//
// If two attempts of a task run at the same time, because the first one has lost its lease, the
// call of the second one waits until the transaction of the first has ended.
func (b *Outbox) Once(ctx context.Context, tx Tx, task *asynq.Task) (fresh bool, err error) {
	queue, ok := asynq.GetQueueName(ctx)
	id, hasID := asynq.GetTaskID(ctx)
	if !ok || !hasID {
		return false, errors.New("outbox: Once needs the context of a handler: elsewhere, use OnceByID")
	}
	if w := task.ResultWriter(); w != nil && w.TaskID() != id {
		return false, fmt.Errorf("outbox: ctx belongs to task %s, not to task %s", id, w.TaskID())
	}
	return b.OnceByID(ctx, tx, queue, id)
}

// OnceByID is Once for a task that was not passed to a handler, such as that of an asynq.Lease.
func (b *Outbox) OnceByID(ctx context.Context, tx Tx, queue, id string) (fresh bool, err error) {
	if tx == nil {
		return false, errors.New("outbox: tx must not be nil: begin a transaction")
	}
	query := "INSERT INTO " + b.inbox() + " (id, created_at) VALUES (?, ?) ON CONFLICT DO NOTHING"
	if b.dialect == MySQL {
		query = "INSERT IGNORE INTO " + b.inbox() + " (id, created_at) VALUES (?, ?)"
	}
	n, err := b.exec(ctx, tx, query, inboxKey(queue, id), micros(b.now()))
	if err != nil {
		return false, fmt.Errorf("outbox: record task %s in %s: %w", id, b.inbox(), err)
	}
	return n > 0, nil
}

// inboxKey returns the ID of a task in the inbox.
func inboxKey(queue, id string) string {
	hash := sha256.Sum256([]byte(strconv.Itoa(len(queue)) + ":" + queue + id))
	return hex.EncodeToString(hash[:])
}

// purgePage is the number of records that one statement deletes.
const purgePage = 1000

// Purge deletes the records of Once that are older than age, 1,000 per statement, and returns their
// number. Relays call it for their own database: see WithInboxRetention.
func (b *Outbox) Purge(ctx context.Context, db Tx, age time.Duration) (deleted int64, err error) {
	for {
		n, err := b.purge(ctx, db, age)
		if deleted += n; err != nil || n < purgePage {
			return deleted, err
		}
	}
}

// purge deletes one page.
func (b *Outbox) purge(ctx context.Context, db Tx, age time.Duration) (int64, error) {
	query := "DELETE FROM " + b.inbox() + " WHERE id IN (SELECT id FROM " + b.inbox() + " WHERE created_at < ? ORDER BY created_at LIMIT ?)"
	if b.dialect == MySQL { // has no LIMIT in subqueries
		query = "DELETE FROM " + b.inbox() + " WHERE created_at < ? ORDER BY created_at LIMIT ?"
	}
	n, err := b.exec(ctx, db, query, b.now().Add(-age).UnixMicro(), purgePage)
	if err != nil {
		return n, fmt.Errorf("outbox: purge %s: %w", b.inbox(), err)
	}
	return n, nil
}

// exec executes a statement with the placeholders ? and returns the number of affected rows.
func (b *Outbox) exec(ctx context.Context, db Tx, query string, args ...any) (int64, error) {
	result, err := db.ExecContext(ctx, b.dialect.rebind(query), args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}
