// Package rdbcheck checks the invariants of all keys of a namespace. Only tests import it.
package rdbcheck

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// Violation is a broken invariant that Check found.
type Violation struct {
	Queue string
	Key   string // the key that is wrong, or that something is missing from
	ID    string // of the task that it is about; empty: of none
	Text  string // the problem, a sentence without a full stop
}

// String formats the violation as one line.
func (v Violation) String() string {
	if v.ID == "" {
		return v.Key + ": " + v.Text
	}
	return fmt.Sprintf("%s: task %q: %s", v.Key, v.ID, v.Text)
}

// checkPage is how many elements, and checkMessages how many task messages, are read from Redis at
// a time.
const (
	checkPage     = 1000
	checkMessages = 100
)

// Check reads all keys of a namespace, on a Cluster those of every master, and returns every
// invariant that is broken, sorted by key and task:
//
//   - An ID is in the one collection that its task's state names, once, and has a task. Every task
//     is in a collection.
//   - A task has a lease if and only if it is active, and pending_since if and only if it is
//     pending or held. A held task is in the lanes of its queue.
//   - A task's message can be decoded, and is that of its ID and queue.
//   - A lock is held by an existing task that references it. (A task may be without its lock: locks
//     expire.)
//   - The members of each part of a flow have succeeded, were deleted, are open or have failed.
//   - The set of groups names the groups that have tasks. Times in scores are whole seconds.
//   - Daily counters, and the keys that other asynq processes do not know, have a TTL.
//   - A queue has no other keys, and each has the right type.
//
// It reads in pages, so that Redis is never blocked for long, and writes nothing. Changes during
// the check may be reported as violations: on a Redis in use, only violations that two runs report
// are real. It keeps the names of all keys in memory, and those of one queue's tasks once more. The
// error is the first failed call to Redis.
func Check(ctx context.Context, client redis.UniversalClient, ns wire.Namespace) ([]Violation, error) {
	if ns == "" {
		ns = wire.DefaultNamespace
	}
	queues, err := scanQueues(ctx, client, ns)
	if err != nil {
		return nil, fmt.Errorf("rdb: check: listing the keys: %w", err)
	}
	var found []Violation
	for name, keys := range queues {
		c := &queueCheck{client: client, keys: ns.Queue(name), indexed: make(map[string][]*collection)}
		if err := c.run(ctx, keys); err != nil {
			return nil, fmt.Errorf("rdb: check of queue %q: %w", name, err)
		}
		found = append(found, c.found...)
	}
	slices.SortFunc(found, func(a, b Violation) int {
		return cmp.Or(strings.Compare(a.Key, b.Key), strings.Compare(a.ID, b.ID), strings.Compare(a.Text, b.Text))
	})
	return found, nil
}

// scanQueues returns the keys of each queue that has any, sorted.
func scanQueues(ctx context.Context, client redis.UniversalClient, ns wire.Namespace) (map[string][]string, error) {
	var (
		mu     sync.Mutex // ForEachMaster runs the function for all masters at once
		queues = make(map[string][]string)
		prefix = string(ns) + ":{"
	)
	scan := func(ctx context.Context, node redis.Cmdable) error {
		for cursor := uint64(0); ; {
			keys, next, err := node.Scan(ctx, cursor, script.EscapeGlob(prefix)+"*", checkPage).Result()
			if err != nil {
				return err
			}
			mu.Lock()
			for _, key := range keys {
				if queue, _, ok := strings.Cut(strings.TrimPrefix(key, prefix), "}:"); ok {
					queues[queue] = append(queues[queue], key)
				}
			}
			mu.Unlock()
			if next == 0 {
				return nil
			}
			cursor = next
		}
	}
	var err error
	if cluster, ok := client.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return scan(ctx, node) })
	} else {
		err = scan(ctx, client)
	}
	if err != nil {
		return nil, err
	}
	for name, keys := range queues {
		slices.Sort(keys)
		queues[name] = slices.Compact(keys) // a key may be scanned twice
	}
	return queues, nil
}
