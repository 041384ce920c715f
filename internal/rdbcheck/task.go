package rdbcheck

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// checkTasks compares every task with the index, and then the index with the tasks.
func (c *queueCheck) checkTasks(ctx context.Context) error {
	for page := range slices.Chunk(c.tasks, checkMessages) {
		hashes := make([]*redis.SliceCmd, len(page))
		_, err := c.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i, id := range page {
				hashes[i] = pipe.HMGet(ctx, c.keys.Task(id), wire.FieldState, wire.FieldMessage, wire.FieldPendingSince,
					wire.FieldGroup, wire.FieldUniqueKey, wire.FieldHeld)
			}
			return nil
		})
		if script.IgnoreRefused(err) != nil {
			return err
		}
		for i, id := range page {
			if err := hashes[i].Err(); err == nil {
				c.checkTask(id, hashes[i].Val())
			} else if script.Refused(err) {
				c.report(c.keys.Task(id), id, "the task cannot be read: %v", err)
			} else {
				return err
			}
		}
	}
	for id, in := range c.indexed {
		if _, ok := slices.BinarySearch(c.tasks, id); !ok {
			c.report(in[0].key, id, "no such task exists")
		}
	}
	for id := range c.leased {
		if _, ok := slices.BinarySearch(c.tasks, id); !ok {
			c.report(c.keys.Lease(), id, "no such task exists")
		}
	}
	for member, used := range c.held {
		if !used {
			c.report(c.keys.HeldTasks(), "", "no held task has the place %q", member)
		}
	}
	return nil
}

// checkTask checks one task, given the fields that checkTasks reads of it.
func (c *queueCheck) checkTask(id string, fields []any) {
	key := c.keys.Task(id)
	text, _ := fields[0].(string)
	state, err := wire.ParseState(text)
	if err != nil {
		c.report(key, id, "its state %q is none that a task can have", text)
	} else {
		c.checkPlace(id, state, fields[3])
	}
	c.checkMessage(id, fields[1])

	_, leased := c.leased[id]
	switch {
	case leased && state != wire.StateActive:
		c.report(c.keys.Lease(), id, "it has a lease and its state is %q", text)
	case !leased && state == wire.StateActive:
		c.report(c.keys.Lease(), id, "it is active and has no lease")
	}

	place, held := fields[5].(string)
	if held = held && state == wire.StateScheduled; held {
		if _, ok := c.held[place+id]; !ok {
			c.report(key, id, "it is held at %q, and no partition has the place", place)
		} else {
			c.held[place+id] = true
		}
	}
	since, waits := fields[2].(string)
	switch {
	case waits && state != wire.StatePending && !held:
		c.report(key, id, "it has pending_since and its state is %q", text)
	case !waits && state == wire.StatePending:
		c.report(key, id, "it is pending and has no pending_since")
	case waits:
		if _, err := strconv.ParseInt(since, 10, 64); err != nil {
			c.report(key, id, "its pending_since %.40q is not an integer", since)
		}
	}
	if lock, ok := fields[4].(string); ok && !strings.HasPrefix(lock, c.keys.UniquePrefix()) {
		c.report(key, id, "its unique_key %q is not the key of a lock of its queue", lock)
	}
}

// checkPlace checks that the task is in the one collection of its state.
func (c *queueCheck) checkPlace(id string, state wire.State, group any) {
	key := c.keys.Task(id)
	name, _ := group.(string)
	places := 0
	for _, in := range c.indexed[id] {
		switch {
		case in.state != state:
			c.report(in.key, id, "it holds the ID of a task whose state is %q", state)
			continue
		case state == wire.StateAggregating && in.group != name:
			c.report(in.key, id, "it holds the ID of a task whose group is %q", name)
		}
		places++
	}
	if places == 0 {
		c.report(key, id, "its state is %q and it is in no such collection", state)
	}
	if places > 1 {
		c.report(key, id, "it is in the collections of its state %d times", places)
	}
}

func (c *queueCheck) checkMessage(id string, field any) {
	key := c.keys.Task(id)
	text, ok := field.(string)
	if !ok {
		c.report(key, id, "it has no message")
		return
	}
	msg, err := wire.DecodeTaskMessage([]byte(text))
	if err != nil {
		c.report(key, id, "its message is malformed: %v", err)
		return
	}
	if msg.ID != id {
		c.report(key, id, "its message is that of task %q", msg.ID)
	}
	if msg.Queue != c.keys.Name {
		c.report(key, id, "its message is of queue %q", msg.Queue)
	}
}

// checkLocks checks that the holder of every lock exists and references it.
func (c *queueCheck) checkLocks(ctx context.Context) error {
	for page := range slices.Chunk(c.locks, checkPage) {
		holders := make([]*redis.StringCmd, len(page))
		_, err := c.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i, lock := range page {
				holders[i] = pipe.Get(ctx, lock)
			}
			return nil
		})
		if script.IgnoreRefused(err) != nil { // a lock may have expired since
			return err
		}
		known := make([]*redis.StringCmd, len(page))
		_, err = c.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i := range page {
				known[i] = pipe.HGet(ctx, c.keys.Task(holders[i].Val()), wire.FieldUniqueKey)
			}
			return nil
		})
		if script.IgnoreRefused(err) != nil {
			return err
		}
		for i, lock := range page {
			holder := holders[i].Val()
			switch _, exists := slices.BinarySearch(c.tasks, holder); {
			case holders[i].Err() != nil:
			case !exists:
				c.report(lock, holder, "it holds a lock and does not exist")
			case known[i].Val() != lock:
				c.report(lock, holder, "it holds a lock that is not its unique_key, which is %q", known[i].Val())
			}
		}
	}
	return nil
}
