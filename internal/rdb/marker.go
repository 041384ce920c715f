package rdb

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Waiting tells which of the queues have tasks in pending. One command where none has, which is the common case.
func (b *Broker) Waiting(ctx context.Context, queues []string) ([]string, error) {
	keys := make([]string, len(queues))
	for i, name := range queues {
		keys[i] = b.queues.get(name).keys.Pending()
	}
	n, err := b.client.Exists(ctx, keys...).Result()
	if err != nil {
		return nil, fmt.Errorf("rdb: looking for pending tasks: %w", err)
	}
	if n == 0 || len(queues) == 1 {
		return queues[:n], nil
	}
	exists := make([]*redis.IntCmd, len(keys))
	_, err = b.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, key := range keys {
			exists[i] = pipe.Exists(ctx, key)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("rdb: looking for pending tasks: %w", err)
	}
	var waiting []string
	for i, cmd := range exists {
		if cmd.Val() > 0 {
			waiting = append(waiting, queues[i])
		}
	}
	return waiting, nil
}

// PassMarker leaves the marker of a queue for another server if tasks wait in it.
func (b *Broker) PassMarker(ctx context.Context, queue string) error {
	c := b.passCall(queue)
	b.run(ctx, c)
	_, err := c.int()
	return err
}

func (b *Broker) passCall(queue string) *call {
	q := b.queues.get(queue)
	return newCall(passMarkerScript, 2).key(q.pending, q.marker)
}
