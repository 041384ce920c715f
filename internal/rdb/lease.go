package rdb

import (
	"context"
	"strconv"
	"time"

	"github.com/asynq-go/asynq/internal/script"
)

// Held is a task that an attempt holds. Extend sets its result.
type Held struct {
	ID    string
	Token string
	Code  script.Code // CodeOK, CodeGone or CodeLost
	Err   error       // the error of the call
}

// Extend extends the leases of tasks of a queue to a duration from now, rounded up to seconds.
func (b *Broker) Extend(ctx context.Context, queue string, lease time.Duration, tasks []Held) {
	q := b.Queue(queue)
	for len(tasks) > 0 {
		var calls []*script.Call
		var parts [][]Held
		for len(tasks) > 0 && len(calls) < script.MaxPipeline {
			part := tasks[:min(script.MaxBatch, len(tasks))]
			tasks = tasks[len(part):]
			c := script.NewCall(extendScript, 2+3*len(part)).Key(q.Lease)
			for _, h := range part {
				c.Key(q.Keys.Task(h.ID))
			}
			c.Arg(script.Seconds(lease))
			for _, h := range part {
				c.Arg(h.ID, h.Token)
			}
			calls, parts = append(calls, c), append(parts, part)
		}
		b.Run(ctx, calls...)
		for i, part := range parts {
			codes := calls[i].ReadCodes(len(part))
			err := codes.Err()
			for j := range part {
				part[j].Code, part[j].Err = codes.Code(), err
			}
		}
	}
}

// foreignGrace is how long expired leases without a token are ignored. Other libraries set them by
// their host's clock.
const foreignGrace = 30 * time.Second

// Expired is a task with an expired lease.
type Expired struct {
	ID      string
	Token   string
	Message []byte // nil: no active task has the ID
}

// Expired returns tasks of the queue with expired leases after skipping the first skip, at most n,
// and at most a megabyte of messages plus one. It also returns the number of leases scanned, and
// the time until the next lease expires: negative if there is none, 0 if the megabyte was used up
// before the last expired lease. Fewer than n scanned leases mean that there are no others, unless
// next is 0.
func (b *Broker) Expired(ctx context.Context, queue string, skip, n int) (tasks []Expired, scanned int, next time.Duration, err error) {
	q := b.Queue(queue)
	c := script.NewCall(expiredScript, 1+5).Key(q.Lease).
		Arg(q.TaskPrefix, skip, min(n, 100), int64(foreignGrace.Seconds()), script.MaxBatchBytes)
	b.Run(ctx, c)
	r := c.Read()
	seen, ms := r.Int(), r.Int()
	for r.More() {
		tasks = append(tasks, Expired{ID: r.Text(), Token: r.Text(), Message: r.Bytes()})
	}
	if err := r.Err(); err != nil {
		return nil, 0, 0, err
	}
	return tasks, int(seen), script.Milliseconds(ms), nil
}

// Recover takes tasks of a queue, each listed once, with expired leases from their workers. Their
// tokens are from Expired; the outcomes are Requeue, to the front of pending, and Archive. It skips
// a task whose lease was extended or that another server has recovered (CodeLost). It returns the
// name of the recovery, with which RecoverAgain repeats it.
func (b *Broker) Recover(ctx context.Context, items []*Settlement) (name string) {
	name = b.ID() + "-" + strconv.FormatUint(b.recoveries.Add(1), 36)
	b.RecoverAgain(ctx, name, items)
	return name
}

// RecoverAgain repeats a recovery, or a part of it. A task that it recovered the first time has
// CodeAlready, or CodeGone if it has been deleted since.
func (b *Broker) RecoverAgain(ctx context.Context, name string, items []*Settlement) {
	batches := b.settleBatches(items)
	calls := make([]*script.Call, len(batches))
	for i, s := range batches {
		s.recovery = name
		s.call = b.settleCall(s)
		s.call.Once = false // a repeated call returns the same codes
		calls[i] = s.call
	}
	b.Run(ctx, calls...)
	for _, s := range batches {
		s.read()
	}
}
