package rdb

import "context"

// ExpireCompleted deletes completed tasks of a queue whose retention is over, at most n (and 500), and returns how many.
func (b *Broker) ExpireCompleted(ctx context.Context, queue string, n int) (int, error) {
	q := b.queues.get(queue)
	if some, err := b.anyExists(ctx, q.keys.Completed()); err != nil || !some {
		return 0, err
	}
	c := newCall(expireCompletedScript, 1+2).key(q.completed).arg(q.taskPrefix, min(n, maxBatch))
	b.run(ctx, c)
	deleted, err := c.int()
	return int(deleted), err
}

// TrimArchived deletes the oldest tasks beyond what a queue's archive may keep (10,000 tasks, 90 days), at most n (and 500), and
// returns how many.
func (b *Broker) TrimArchived(ctx context.Context, queue string, n int) (int, error) {
	q := b.queues.get(queue)
	if some, err := b.anyExists(ctx, q.keys.Archived()); err != nil || !some {
		return 0, err
	}
	c := newCall(trimArchivedScript, 1+4).key(q.archived).
		arg(q.taskPrefix, b.archiveSize, int64(archiveAge.Seconds()), min(n, maxBatch))
	b.run(ctx, c)
	deleted, err := c.int()
	return int(deleted), err
}

// WriteResult stores the result of a task on behalf of the attempt that holds it under the token. The error is ErrTaskGone or
// ErrTokenLost where none does.
func (b *Broker) WriteResult(ctx context.Context, queue, id, token string, result []byte) error {
	q := b.queues.get(queue)
	c := newCall(writeResultScript, 1+2).key(q.keys.Task(id)).arg(token, result)
	b.run(ctx, c)
	code, err := c.int()
	if err != nil {
		return err
	}
	return Code(code).Err()
}
