package rdb

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

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
	Result    []byte        // Complete; nil: as it is
	Lock      string        // that the task may hold, and gives up with Done, Complete and Discard; empty: none
	Delay     time.Duration // Retry
	Retention int64         // Complete, seconds
	Failed    bool          // Retry, Archive: the attempt counts as processed and failed

	Code Code
	Err  error // the call did not go through; it may have been executed
}

// size is how many bytes of the user's a settlement carries.
func (s *Settlement) size() int { return len(s.Message) + len(s.Result) }

// settleBatch is one call of an outcome's script.
type settleBatch struct {
	queue   *queue
	outcome Outcome
	items   []*Settlement
	call    *call
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
		if in == nil || in.queue.keys.Name != s.Queue || in.outcome != s.Outcome {
			in = open[target{s.Queue, s.Outcome}]
		}
		if in == nil || len(in.items) == maxBatch || bytes[in]+s.size() > maxBatchBytes {
			in = &settleBatch{queue: b.queues.get(s.Queue), outcome: s.Outcome, items: make([]*Settlement, 0, min(len(items), maxBatch))}
			open[target{s.Queue, s.Outcome}] = in
			batches = append(batches, in)
		}
		in.items = append(in.items, s)
		if n := s.size(); n > 0 {
			bytes[in] += n
		}
		last = in
	}
	return batches
}

// settleCall makes the call of a batch. It is never to be repeated by go-redis: the caller repeats it, and so knows what an answer to a
// repeated call means.
func (b *Broker) settleCall(in *settleBatch) *call {
	q := in.queue
	day := q.today(b.now())
	var c *call
	switch in.outcome {
	case Done:
		c = newCall(doneScript, 4+3+len(in.items)).key(q.active, q.lease, q.processed, day.processed)
	case Complete:
		c = newCall(completeScript, 6+7*len(in.items)).key(q.active, q.lease, q.completed, q.processed, day.processed)
	case Retry:
		c = newCall(retryScript, 8+6*len(in.items)).
			key(q.active, q.lease, q.retry, q.processed, day.processed, q.failed, day.failed)
	case Archive:
		c = newCall(archiveScript, 12+5*len(in.items)).
			key(q.active, q.lease, q.archived, q.processed, day.processed, q.failed, day.failed)
	case Discard:
		c = newCall(discardScript, 7+4*len(in.items)).key(q.active, q.lease, q.processed, day.processed, q.failed, day.failed)
	case Requeue:
		c = newCall(requeueScript, 4+3*len(in.items)).key(q.active, q.lease, q.pending, q.marker)
	}
	c.once = true
	in.addTasks(c)
	switch in.outcome {
	case Done:
		return in.addFinish(c)
	case Complete, Retry, Discard:
		c.arg(statsSeconds)
	case Archive:
		c.arg(statsSeconds, q.taskPrefix, b.archiveSize, int64(archiveAge.Seconds()), "")
	}
	for _, s := range in.items {
		c.arg(s.ID, s.Token)
		switch s.Outcome {
		case Complete:
			c.arg(s.Message, s.Retention, q.lock(s.Lock), s.Result)
		case Retry:
			c.arg(s.Message, ceil(s.Delay, time.Millisecond), flag(s.Failed))
		case Archive:
			c.arg(s.Message, flag(s.Failed))
		case Discard:
			c.arg(q.lock(s.Lock))
		}
	}
	return c
}

// addTasks adds the keys of the tasks, those of a fetch one after the other where the script wants their token once.
func (s *settleBatch) addTasks(c *call) {
	if s.outcome == Done {
		slices.SortStableFunc(s.items, func(a, b *Settlement) int { return strings.Compare(a.Token, b.Token) })
	}
	for _, item := range s.items {
		c.key(s.queue.keys.Task(item.ID))
	}
}

// addFinish adds the arguments of lib/finish.lua.
func (s *settleBatch) addFinish(c *call) *call {
	var tokens []byte
	n := 0
	for i, item := range s.items {
		n++
		if i+1 == len(s.items) || s.items[i+1].Token != item.Token {
			tokens = append(append(tokens, item.Token...), '*')
			tokens = append(strconv.AppendInt(tokens, int64(n), 10), ' ')
			n = 0
		}
	}
	c.arg(statsSeconds, s.queue.taskPrefixLen, tokens)
	for i, item := range s.items {
		if lock := s.queue.lock(item.Lock); lock != "" {
			c.arg(i+1, lock)
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
