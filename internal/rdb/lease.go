package rdb

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// Held names a task that an attempt holds, and says after Extend whether it still does.
type Held struct {
	ID    string
	Token string
	Code  Code  // CodeOK, CodeGone or CodeLost
	Err   error // the call did not go through
}

// Extend lets the leases of tasks of a queue last for so long from now, rounded up to seconds.
func (b *Broker) Extend(ctx context.Context, queue string, lease time.Duration, tasks []Held) {
	q := b.queues.get(queue)
	for len(tasks) > 0 {
		var calls []*call
		var parts [][]Held
		for len(tasks) > 0 && len(calls) < maxPipeline {
			part := tasks[:min(maxBatch, len(tasks))]
			tasks = tasks[len(part):]
			c := newCall(extendScript, 2+3*len(part)).key(q.lease)
			for _, h := range part {
				c.key(q.keys.Task(h.ID))
			}
			c.arg(seconds(lease))
			for _, h := range part {
				c.arg(h.ID, h.Token)
			}
			calls, parts = append(calls, c), append(parts, part)
		}
		b.run(ctx, calls...)
		for i, part := range parts {
			codes, err := calls[i].codes(len(part))
			for j := range part {
				if part[j].Err = err; err == nil {
					part[j].Code = codes[j]
				}
			}
		}
	}
}

// foreignPatience is how long after their end leases without a token are left alone: other processes set them by their own
// host's clock.
const foreignPatience = 30 * time.Second

// Expired is a task whose lease has ended.
type Expired struct {
	ID      string
	Token   string
	Message []byte // nil: the ID is in lease, but there is no active task with it
}

// Expired lists tasks of the queue whose lease has ended, at most n of them and a megabyte with the last one's message beyond it, passing
// over the first skip. It returns also how many leases it looked at and how long it is until the next lease ends: negative where none is
// held, 0 where the megabyte was used up and others have ended too. With fewer than n looked at there are no others, unless it is 0.
func (b *Broker) Expired(ctx context.Context, queue string, skip, n int) (tasks []Expired, looked int, next time.Duration, err error) {
	q := b.queues.get(queue)
	if some, err := b.anyExists(ctx, q.keys.Lease()); err != nil || !some {
		return nil, 0, -1, err
	}
	c := newCall(expiredScript, 1+5).key(q.lease).
		arg(q.taskPrefix, skip, min(n, 100), int64(foreignPatience.Seconds()), maxBatchBytes)
	b.run(ctx, c)
	if c.err != nil {
		return nil, 0, 0, fmt.Errorf("rdb: %s: %w", c.script.name, c.err)
	}
	reply, ok := c.reply.([]any)
	if !ok || len(reply) < 2 || (len(reply)-2)%3 != 0 {
		return nil, 0, 0, c.malformed()
	}
	seen, ok1 := reply[0].(int64)
	ms, ok2 := reply[1].(int64)
	if !ok1 || !ok2 {
		return nil, 0, 0, c.malformed()
	}
	for i := 2; i < len(reply); i += 3 {
		t := Expired{}
		t.ID, _ = reply[i].(string)
		t.Token, _ = reply[i+1].(string)
		if msg, ok := reply[i+2].(string); ok {
			t.Message = []byte(msg)
		}
		tasks = append(tasks, t)
	}
	return tasks, int(seen), milliseconds(ms), nil
}

// Recovery takes a task back from a worker that let its lease end, and says afterwards whether it did.
type Recovery struct {
	ID      string
	Token   string // as Expired told it
	Message []byte // encoded; nil: as it is
	Archive bool   // into the archive; else to the front of pending
	Failed  bool   // the attempt counts as processed and failed

	Code Code
	Err  error
}

// Recover takes back tasks of a queue, each named once. A task whose lease was extended, or that somebody else took back, is left
// alone (CodeLost).
func (b *Broker) Recover(ctx context.Context, queue string, items []*Recovery) {
	q := b.queues.get(queue)
	day := q.today(b.now())
	by := b.senders.id + "-" + strconv.FormatUint(b.recoveries.Add(1), 36)
	var archive, pending []*Recovery
	for _, r := range items {
		if r.Archive {
			archive = append(archive, r)
		} else {
			pending = append(pending, r)
		}
	}
	var calls []*call
	var parts [][]*Recovery
	add := func(c *call, part []*Recovery, args ...any) {
		for _, r := range part {
			c.key(q.keys.Task(r.ID))
		}
		c.arg(args...)
		for _, r := range part {
			c.arg(r.ID, r.Token, r.Message, flag(r.Failed))
		}
		calls, parts = append(calls, c), append(parts, part)
	}
	ttl := int64(statsTTL.Seconds())
	for len(pending) > 0 {
		part := firstRecoveries(pending)
		pending = pending[len(part):]
		add(newCall(recoverScript, 10+5*len(part)).
			key(q.active, q.lease, q.pending, q.marker, q.processed, day.processed, q.failed, day.failed), part, ttl, by)
	}
	for len(archive) > 0 {
		part := firstRecoveries(archive)
		archive = archive[len(part):]
		add(newCall(archiveScript, 12+5*len(part)).
			key(q.active, q.lease, q.archived, q.processed, day.processed, q.failed, day.failed), part,
			ttl, q.taskPrefix, b.archiveSize, int64(archiveAge.Seconds()), by)
	}
	if len(calls) == 0 {
		return
	}
	b.run(ctx, calls...)
	for i, part := range parts {
		codes, err := calls[i].codes(len(part))
		for j, r := range part {
			if r.Err = err; err == nil {
				r.Code = codes[j]
			}
		}
	}
}

// firstRecoveries returns as many of the items, which are some, as one call may carry.
func firstRecoveries(items []*Recovery) []*Recovery {
	n, bytes := 1, len(items[0].Message)
	for n < len(items) && n < maxBatch && bytes+len(items[n].Message) <= maxBatchBytes {
		bytes += len(items[n].Message)
		n++
	}
	return items[:n]
}
