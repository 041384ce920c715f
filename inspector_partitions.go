package asynq

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/asynq-go/asynq/internal/inspect"
	"github.com/asynq-go/asynq/internal/wire"
)

// PartitionSettings are the settings of one partition. A field that is zero has the value of the
// field of PartitionConfig.
type PartitionSettings struct {
	Concurrency int       // maximum number of active tasks, at most 1,000; negative means no limit
	Rate        RateLimit // negative Events mean no limit
	Weight      float64   // share of the queue: twice the weight, twice the starts; from 0.000001 to 1,000,000
	Paused      bool      // no tasks start
}

// PartitionInfo is the state of a partition at one moment.
type PartitionInfo struct {
	Queue string
	Key   string // empty for the tasks without a partition key

	Held   int // tasks that wait because of their partition
	Active int // active tasks, on servers with a PartitionConfig

	// Latency is the age of the first held task since it became pending, 0 if there is none.
	Latency time.Duration

	// IsBlocked reports whether a limit, or a pause, holds the tasks. CheckAt is then when servers
	// check the limit, at the latest; zero if the partition is paused.
	IsBlocked bool
	CheckAt   time.Time

	Settings  PartitionSettings // its own, see SetPartition
	Timestamp time.Time         // time of this state by the clock of Redis
}

// SetPartition replaces all settings of a partition, including Paused, which take effect within a
// second on all servers with a PartitionConfig for the queue, also for waiting tasks. Running tasks
// continue if a limit becomes smaller. Zero settings restore those of the queue. key is empty for
// the tasks without a partition key; if the queue is partitioned by type, it is a type.
//
// The settings last until they are replaced or the queue is deleted. It returns an error if a field
// is out of range or the key invalid, and ErrQueueNotFound (errors.Is) if the queue does not exist.
func (i *Inspector) SetPartition(ctx context.Context, queue, key string, s PartitionSettings) error {
	if err := i.partitionExists(ctx, queue, key); err != nil {
		return err
	}
	text, err := s.encode()
	if err != nil {
		return fmt.Errorf("asynq: partition %q: %w", key, err)
	}
	return brokerError(i.inspector.SetPartition(ctx, queue, key, text))
}

// UpdatePartition changes some settings of a partition, and keeps what others change at the same
// time: change gets the current settings, and is called again with the new ones if they have
// changed before its result is stored. So a new limit does not undo a pause.
//
// If change returns an error, UpdatePartition returns it and changes nothing. See SetPartition for
// the other errors and for the effect.
func (i *Inspector) UpdatePartition(ctx context.Context, queue, key string, change func(*PartitionSettings) error) error {
	if change == nil {
		return errors.New("asynq: change must not be nil")
	}
	if err := i.partitionExists(ctx, queue, key); err != nil {
		return err
	}
	for {
		p, err := i.inspector.Partition(ctx, queue, key)
		if err != nil {
			return brokerError(err)
		}
		before := partitionSettings(p.Settings)
		after := before
		if err := change(&after); err != nil || after == before {
			return err
		}
		text, err := after.encode()
		if err != nil {
			return fmt.Errorf("asynq: partition %q: %w", key, err)
		}
		if replaced, err := i.inspector.ReplacePartition(ctx, queue, key, p.Settings, text); err != nil || replaced {
			return brokerError(err)
		}
	}
}

// encode validates the settings, and returns them as the scripts read them.
func (s PartitionSettings) encode() (string, error) {
	l, sets := wire.PartitionLimits{Weight: s.Weight, Paused: s.Paused}, 0
	if s.Concurrency > maxPartitionConcurrency {
		return "", fmt.Errorf("the Concurrency must be at most 1,000, not %d", s.Concurrency)
	}
	if s.Concurrency != 0 {
		l.Concurrency, sets = max(s.Concurrency, 0), sets|wire.SetsConcurrency
	}
	switch {
	case s.Rate.Events < 0:
		sets |= wire.SetsRate
	case s.Rate != RateLimit{}:
		if err := s.Rate.validate(); err != nil {
			return "", err
		}
		l.Events, l.Per, l.Burst, sets = s.Rate.Events, s.Rate.Per, s.Rate.Burst, sets|wire.SetsRate
	}
	if s.Weight != 0 {
		if err := validWeight(s.Weight); err != nil {
			return "", err
		}
		sets |= wire.SetsWeight
	}
	return l.Encode(sets), nil
}

// partitionSettings decodes settings.
func partitionSettings(text string) (s PartitionSettings) {
	l, sets := wire.ParsePartitionLimits(text)
	s.Weight, s.Paused, s.Concurrency = l.Weight, l.Paused, l.Concurrency
	if sets&wire.SetsConcurrency != 0 && l.Concurrency == 0 {
		s.Concurrency = -1
	}
	switch {
	case sets&wire.SetsRate == 0:
	case l.Events == 0:
		s.Rate.Events = -1
	default:
		s.Rate = RateLimit{Events: l.Events, Per: l.Per, Burst: l.Burst}
	}
	return s
}

// PausePartition stops servers from starting tasks of a partition until ResumePartition. It keeps
// the other settings of the partition. See SetPartition for the errors.
func (i *Inspector) PausePartition(ctx context.Context, queue, key string) error {
	return i.setPartitionPaused(ctx, queue, key, true)
}

// ResumePartition ends PausePartition. If the partition is not paused, it does nothing. See
// SetPartition for the errors.
func (i *Inspector) ResumePartition(ctx context.Context, queue, key string) error {
	return i.setPartitionPaused(ctx, queue, key, false)
}

func (i *Inspector) setPartitionPaused(ctx context.Context, queue, key string, paused bool) error {
	return i.UpdatePartition(ctx, queue, key, func(s *PartitionSettings) error {
		s.Paused = paused
		return nil
	})
}

// GetPartitionInfo returns the state of a partition, whether it has tasks or not. See SetPartition
// for the errors.
func (i *Inspector) GetPartitionInfo(ctx context.Context, queue, key string) (*PartitionInfo, error) {
	if err := i.partitionExists(ctx, queue, key); err != nil {
		return nil, err
	}
	p, err := i.inspector.Partition(ctx, queue, key)
	if err != nil {
		return nil, brokerError(err)
	}
	return newPartitionInfo(queue, p), nil
}

func newPartitionInfo(queue string, p *inspect.Partition) *PartitionInfo {
	info := &PartitionInfo{
		Queue: queue, Key: p.Key, Held: p.Held, Active: p.Active, IsBlocked: p.Blocked && p.Held > 0,
		Settings: partitionSettings(p.Settings), Timestamp: p.Now,
	}
	if !p.Oldest.IsZero() {
		info.Latency = max(p.Now.Sub(p.Oldest), 0)
	}
	if info.IsBlocked && !info.Settings.Paused {
		info.CheckAt = p.CheckAt
		if !p.CheckAt.IsZero() && p.CheckAt.Before(p.Now) {
			info.CheckAt = p.Now // a change of the settings makes servers check them now
		}
	}
	return info
}

// Partitions yields the partitions of a queue that have held or active tasks, by key. Each call of
// Redis reads 200 partitions at one moment. Tasks that have not been sorted yet, because no server
// with a PartitionConfig runs, belong to none.
//
// An error comes with a nil partition and ends the iteration: ErrQueueNotFound (errors.Is), the
// error of ctx, or an error of Redis.
func (i *Inspector) Partitions(ctx context.Context, queue string) iter.Seq2[*PartitionInfo, error] {
	return func(yield func(*PartitionInfo, error) bool) {
		if err := i.partitionExists(ctx, queue, ""); err != nil {
			yield(nil, err)
			return
		}
		for after, more := "", false; ; more = true {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			page, err := i.inspector.Partitions(ctx, queue, after, more)
			if err != nil {
				yield(nil, brokerError(err))
				return
			}
			for _, p := range page {
				if !yield(newPartitionInfo(queue, p), nil) {
					return
				}
			}
			if len(page) == 0 {
				return
			}
			after = page[len(page)-1].Key
		}
	}
}

// PartitionSettings returns the settings of the partitions of a queue that have their own, by key,
// whether they have tasks or not. It returns ErrQueueNotFound (errors.Is) if the queue does not
// exist.
func (i *Inspector) PartitionSettings(ctx context.Context, queue string) (map[string]PartitionSettings, error) {
	if err := i.partitionExists(ctx, queue, ""); err != nil {
		return nil, err
	}
	texts, err := i.inspector.PartitionSettings(ctx, queue)
	if err != nil {
		return nil, brokerError(err)
	}
	all := make(map[string]PartitionSettings, len(texts))
	for key, text := range texts {
		all[key] = partitionSettings(text)
	}
	return all, nil
}

// CancelPartitionTasks cancels the contexts of the active tasks of a partition, and returns their
// number. Like CancelProcessing, it does not wait for them. See SetPartition for the errors.
func (i *Inspector) CancelPartitionTasks(ctx context.Context, queue, key string) (int, error) {
	return i.cancelPartition(ctx, queue, key, func(id string) error { return i.WithContext(ctx).CancelProcessing(id) })
}

func (i *Inspector) cancelPartition(ctx context.Context, queue, key string, cancel func(id string) error) (int, error) {
	if err := i.partitionExists(ctx, queue, key); err != nil {
		return 0, err
	}
	ids, err := i.inspector.RunningTaskIDs(ctx, queue, key, maxPartitionTasks)
	if err != nil {
		return 0, brokerError(err)
	}
	for n, id := range ids {
		if err := cancel(id); err != nil {
			return n, err
		}
	}
	return len(ids), nil
}

// maxPartitionTasks bounds the active tasks of a partition that are canceled.
const maxPartitionTasks = 100_000

// DeletePartitionTasks deletes the tasks of a partition that are pending, held, scheduled, in retry
// or waiting in a group, with their locks, and cancels its active tasks, which are deleted when
// their handlers return an error. It returns the number of deletions and cancellations, also with
// an error. It reads all waiting tasks of the queue. If tasks of the partition start meanwhile, it
// reads them again, up to 4 times, and repeats the cancellations for up to 750 ms.
//
// All tasks are deleted that wait when it is called and do not start before it returns. Those that
// start meanwhile are canceled, too; one that fails before it is canceled may remain, in retry.
// Tasks that are enqueued meanwhile may remain.
//
// It is for partitions by PartitionKey: for others, use DeleteTasks with TaskFilter.Type. It
// returns an error if the key is empty; see SetPartition for the others.
func (i *Inspector) DeletePartitionTasks(ctx context.Context, queue, key string) (int, error) {
	if key == "" {
		return 0, errors.New("asynq: partition key must not be empty: use DeleteTasks for tasks without one")
	}
	canceled, total := make(map[string]int), 0 // canceled has the round in which a task was found
	// cancelAll cancels active tasks, also again: a server that has just started one may have
	// missed it. It reports whether some are new, and whether some have started since the first
	// round.
	cancelAll := func(round int) (isNew, late bool, err error) {
		_, err = i.cancelPartition(ctx, queue, key, func(id string) error {
			err := i.CancelAndDelete(ctx, id)
			if _, known := canceled[id]; !known && err == nil {
				canceled[id], isNew = round, true
				total++
			}
			late = late || canceled[id] > 0
			return err
		})
		return isNew, late, err
	}
	if _, _, err := cancelAll(0); err != nil {
		return total, err
	}
	wait := 50 * time.Millisecond
	for round, again := 1, true; ; round++ {
		if again {
			n, err := i.deleteWaiting(ctx, queue, key)
			if total += n; err != nil {
				return total, err
			}
		}
		var late bool
		var err error
		if again, late, err = cancelAll(round); err != nil || !late || round == maxPartitionRounds {
			return total, err
		}
		select {
		case <-ctx.Done():
			return total, ctx.Err()
		case <-time.After(wait):
			wait *= 2
		}
	}
}

// maxPartitionRounds is how often DeletePartitionTasks reads the waiting tasks of a queue, at most.
const maxPartitionRounds = 5

// deleteWaiting deletes the waiting tasks of a partition, and returns their number. It reads the
// states in the order in which tasks pass through them until they start, held ones last, so that it
// finds each task in one of them.
func (i *Inspector) deleteWaiting(ctx context.Context, queue, key string) (total int, err error) {
	for _, state := range []TaskState{TaskStateScheduled, TaskStateRetry, TaskStateAggregating, TaskStatePending} {
		n, err := i.DeleteTasks(ctx, queue, state, TaskFilter{PartitionKey: key})
		if total += n; err != nil {
			return total, err
		}
	}
	done := &inspect.Changed{}
	change := inspect.Change{Verb: inspect.Delete, Queue: queue, From: wire.StateScheduled, Done: done}
	for last := ""; ; {
		var ids []string
		if ids, last, err = i.inspector.HeldTaskIDs(ctx, queue, key, last, matchingPage); err == nil && len(ids) > 0 {
			_, err = i.inspector.Change(ctx, change, ids)
		}
		if err != nil || last == "" {
			return total + done.Tasks(), brokerError(err)
		}
	}
}

// partitionExists returns an error if ctx is nil, the key is invalid, or the queue does not exist.
func (i *Inspector) partitionExists(ctx context.Context, queue, key string) error {
	if ctx == nil {
		return errNilContext
	}
	if err := validQueue(queue, queueNotFoundText); err != nil {
		return err
	}
	if !utf8.ValidString(key) || strings.Contains(key, "\x00") {
		return fmt.Errorf("asynq: partition key %q must be UTF-8 without NUL", key)
	}
	return i.mustExist(ctx, queue, queueNotFoundText)
}
