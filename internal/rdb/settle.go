package rdb

import "time"

// Outcome is how the attempt to process a task ends.
type Outcome int

// The outcomes; each has a script of its own.
const (
	Done     Outcome = iota // succeeded, not kept
	Complete                // succeeded, kept for Retention
	Retry                   // to be tried again after Delay
	Archive                 // not to be tried again
	Requeue                 // given back unfinished, without a used attempt
	Discard                 // failed, and to be deleted
)

// String is the outcome's name in log lines.
func (o Outcome) String() string {
	return [...]string{"done", "complete", "retry", "archive", "requeue", "discard"}[o]
}

// Settlement ends one attempt, and says afterwards whether it did.
type Settlement struct {
	Queue   string
	ID      string
	Token   string // of the fetch
	Outcome Outcome

	Message   []byte        // encoded; Complete, Retry, Archive (nil: as it is)
	Delay     time.Duration // Retry
	Retention int64         // Complete, seconds
	Failed    bool          // Retry, Archive: the attempt counts as processed and failed

	Code Code
	Err  error // the call did not go through; it may have been executed
}

// settleBatch is one call of an outcome's script.
type settleBatch struct {
	call  *call
	items []*Settlement
}

func (s *settleBatch) read() {
	codes, err := s.call.codes(len(s.items))
	for i, item := range s.items {
		if item.Err = err; err == nil {
			item.Code = codes[i]
		}
	}
}

// settleBatches divides settlements by queue and outcome into calls of a bounded size.
func (b *Broker) settleBatches(items []*Settlement) []*settleBatch {
	if len(items) == 0 {
		return nil
	}
	type target struct {
		queue   string
		outcome Outcome
	}
	open := make(map[target]*settleBatch, 1)
	bytes := make(map[*settleBatch]int)
	var batches []*settleBatch
	var last *settleBatch // nearly always the next one's too
	for _, s := range items {
		in := last
		if in == nil || in.items[0].Queue != s.Queue || in.items[0].Outcome != s.Outcome {
			in = open[target{s.Queue, s.Outcome}]
		}
		if in == nil || len(in.items) == maxBatch || bytes[in]+len(s.Message) > maxBatchBytes {
			in = &settleBatch{items: make([]*Settlement, 0, min(len(items), maxBatch))}
			open[target{s.Queue, s.Outcome}] = in
			batches = append(batches, in)
		}
		in.items = append(in.items, s)
		if s.Message != nil {
			bytes[in] += len(s.Message)
		}
		last = in
	}
	for _, in := range batches {
		in.call = b.settleCall(in.items)
		in.call.once = true // the caller repeats it, and so knows what an answer to a repeated call means
	}
	return batches
}

// settleCall makes the call for settlements of one queue and outcome.
func (b *Broker) settleCall(items []*Settlement) *call {
	q := b.queues.get(items[0].Queue)
	day := q.today(b.now())
	var c *call
	switch items[0].Outcome {
	case Done:
		c = newCall(doneScript, 5+3*len(items)).key(q.active, q.lease, q.processed, day.processed)
	case Complete:
		c = newCall(completeScript, 6+5*len(items)).key(q.active, q.lease, q.completed, q.processed, day.processed)
	case Retry:
		c = newCall(retryScript, 8+6*len(items)).
			key(q.active, q.lease, q.retry, q.processed, day.processed, q.failed, day.failed)
	case Archive:
		c = newCall(archiveScript, 12+5*len(items)).
			key(q.active, q.lease, q.archived, q.processed, day.processed, q.failed, day.failed)
	case Discard:
		c = newCall(discardScript, 7+3*len(items)).key(q.active, q.lease, q.processed, day.processed, q.failed, day.failed)
	case Requeue:
		c = newCall(requeueScript, 4+3*len(items)).key(q.active, q.lease, q.pending, q.marker)
	}
	for _, s := range items {
		c.key(q.keys.Task(s.ID))
	}
	switch items[0].Outcome {
	case Done, Complete, Retry, Discard:
		c.arg(int64(statsTTL.Seconds()))
	case Archive:
		c.arg(int64(statsTTL.Seconds()), q.taskPrefix, b.archiveSize, int64(archiveAge.Seconds()), "")
	}
	for _, s := range items {
		c.arg(s.ID, s.Token)
		switch s.Outcome {
		case Complete:
			c.arg(s.Message, s.Retention)
		case Retry:
			c.arg(s.Message, int64((s.Delay+time.Millisecond-1)/time.Millisecond), flag(s.Failed))
		case Archive:
			c.arg(s.Message, flag(s.Failed))
		}
	}
	return c
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}
