package rdb

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/asynq-go/asynq/internal/wire"
)

// The errors of a tick whose task was neither made nor refused.
var (
	ErrTickOver = errors.New("a later tick of the entry is over already")
	ErrTickLate = errors.New("the lease of the scheduler has ended")
)

// Tick is one tick of a scheduler entry, and after EnqueueTick what became of it.
type Tick struct {
	Entry    string   // ID
	At       int64    // unix milliseconds
	Deadline int64    // unix milliseconds by Redis's clock, after which nothing must be done
	Task     *NewTask // with the result in its Err

	Decided int64 // unix milliseconds: when the task was made or refused
}

// EnqueueTick makes the tasks of ticks, each of another entry, and leaves the result of each in its task's Err, as Enqueue does:
// ErrTickOver and ErrTickLate are further ones. A tick that is enqueued again, by whom ever, is answered as it was the first time.
// After any error that is no declared one the tick may be over or not.
func (b *Broker) EnqueueTick(ctx context.Context, ticks ...*Tick) {
	calls := make([]*call, len(ticks))
	for i, t := range ticks {
		q := b.queues.get(t.Task.Queue)
		state, collection := wire.StatePending, q.pending
		switch {
		case t.Task.ProcessAt > 0:
			state, collection = wire.StateScheduled, q.scheduled
		case t.Task.Group != "":
			state, collection = wire.StateAggregating, q.keys.Group(t.Task.Group)
		}
		calls[i] = newCall(enqueueTickScript, 6+11).
			key(q.keys.Tick(t.Entry), q.keys.Task(t.Task.ID), collection, q.groups, q.groupsDue, q.marker).
			arg(q.taskPrefix, t.At, t.Deadline, seconds(groupTTL), state.String(),
				t.Task.ID, t.Task.Message, t.Task.Lock, max(t.Task.LockTTL, 1), t.Task.ProcessAt, t.Task.Group)
		b.publish(ctx, q)
	}
	b.run(ctx, calls...)
	for i, t := range ticks {
		v, err := calls[i].ints(2)
		switch {
		case err != nil:
			t.Task.Err = err
		case Code(v[0]) == CodeStale:
			t.Task.Err = ErrTickOver
		case Code(v[0]) == CodeLost:
			t.Task.Err = ErrTickLate
		default:
			t.Task.Err = Code(v[0]).Err()
			t.Decided = v[1]
		}
	}
}

// TickMemory is what Redis remembers of an entry's ticks, and what it is to remember.
type TickMemory struct {
	Entry string // ID
	Queue string
	Seed  int64 // unix milliseconds: where nothing is remembered, ticks up to here are over
	Over  int64 // unix milliseconds: ticks up to here are over in any case

	Last int64 // unix milliseconds: ticks up to here are over
	Made bool  // the last of them was enqueued, or refused; otherwise it was only said to be over
	Err  error
}

// RecallTick reads what Redis remembers of ticks, after it was told what to remember. It leaves the error of each in its Err.
func (b *Broker) RecallTick(ctx context.Context, memories ...*TickMemory) {
	calls := make([]*call, len(memories))
	for i, m := range memories {
		calls[i] = newCall(recallTickScript, 1+3).key(b.queues.get(m.Queue).keys.Tick(m.Entry)).
			arg(m.Seed, m.Over, seconds(groupTTL))
	}
	b.run(ctx, calls...)
	for i, m := range memories {
		if m.Err = calls[i].err; m.Err != nil {
			m.Err = fmt.Errorf("rdb: %s: %w", calls[i].script.name, m.Err)
			continue
		}
		record, _ := calls[i].reply.(string)
		last, rest, _ := strings.Cut(record, ":")
		var err error
		if m.Last, err = strconv.ParseInt(last, 10, 64); err != nil {
			m.Err = calls[i].malformed()
		}
		m.Made = rest != ":"
	}
}
