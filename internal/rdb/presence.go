package rdb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/wire"
)

// presenceTTL is how long a server is believed to live after its last sign of life.
const presenceTTL = 10 * time.Second

// Presence is what a server tells of itself.
type Presence struct {
	Process wire.Process
	Info    []byte            // encoded ServerInfo
	Started map[string][]byte // task ID → encoded WorkerInfo, since the last time it was told
	Ended   []string          // task IDs
	Busy    bool              // tasks are running
	Known   bool              // Redis was told of some the last time
}

// Publish tells that a server lives, and how its workers differ from the last time. forgotten says that Redis no longer had the
// workers it was told of: the caller tells all of them next time.
func (b *Broker) Publish(ctx context.Context, p *Presence) (forgotten bool, err error) {
	ns := b.queues.namespace
	server, workers := ns.Server(p.Process), ns.ServerWorkers(p.Process)
	expiry := float64(b.now().Add(presenceTTL).Unix())
	var alive *redis.BoolCmd
	_, err = b.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Set(ctx, server, p.Info, presenceTTL)
		pipe.ZAdd(ctx, ns.Servers(), redis.Z{Score: expiry, Member: server})
		if p.Known {
			alive = pipe.Expire(ctx, workers, presenceTTL)
		}
		for ended := range slices.Chunk(p.Ended, maxBatch) {
			pipe.HDel(ctx, workers, ended...)
		}
		values, bytes := make([]any, 0, 2*min(len(p.Started), maxBatch)), 0
		for id, info := range p.Started {
			if len(values) == 2*maxBatch || bytes+len(info) > maxBatchBytes && bytes > 0 {
				pipe.HSet(ctx, workers, values...)
				values, bytes = make([]any, 0, cap(values)), 0
			}
			values = append(values, id, info)
			bytes += len(info)
		}
		if len(values) > 0 {
			pipe.HSet(ctx, workers, values...)
		}
		if p.Busy {
			pipe.Expire(ctx, workers, presenceTTL)
			pipe.ZAdd(ctx, ns.Workers(), redis.Z{Score: expiry, Member: workers})
		} else if len(p.Ended) > 0 {
			pipe.Del(ctx, workers)
			pipe.ZRem(ctx, ns.Workers(), workers)
		}
		return nil
	})
	if err != nil {
		return true, fmt.Errorf("rdb: publishing the server's state: %w", err)
	}
	return alive != nil && !alive.Val(), nil
}

// Withdraw deletes what a server told of itself.
func (b *Broker) Withdraw(ctx context.Context, p wire.Process) error {
	ns := b.queues.namespace
	server, workers := ns.Server(p), ns.ServerWorkers(p)
	_, err := b.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.ZRem(ctx, ns.Servers(), server)
		pipe.ZRem(ctx, ns.Workers(), workers)
		pipe.Del(ctx, server)
		pipe.Del(ctx, workers)
		return nil
	})
	if err != nil {
		return fmt.Errorf("rdb: withdrawing the server's state: %w", err)
	}
	return nil
}

// AnnounceQueues puts names into the set of all queues.
func (b *Broker) AnnounceQueues(ctx context.Context, names []string) error {
	members := make([]any, len(names))
	for i, n := range names {
		members[i] = n
	}
	if err := b.client.SAdd(ctx, b.queues.namespace.Queues(), members...).Err(); err != nil {
		return fmt.Errorf("rdb: announcing queues: %w", err)
	}
	return nil
}

// Cancel asks all servers to cancel the task with this ID, if they run it.
func (b *Broker) Cancel(ctx context.Context, id string) error {
	if err := b.client.Publish(ctx, b.queues.namespace.Cancel(), id).Err(); err != nil {
		return fmt.Errorf("rdb: asking to cancel a task: %w", err)
	}
	return nil
}

// CancelTo asks all servers to cancel the task with this ID, if they run it, and tells those of this library what is to become of it. They
// are told first: the ID alone, which other libraries understand, then finds them canceled.
func (b *Broker) CancelTo(ctx context.Context, id string, fate wire.Fate) error {
	c := newCall(cancelScript, 3).arg(b.queues.namespace.Cancel(), wire.CancelMessage(id, fate), id)
	b.run(ctx, c)
	_, err := c.int() // which names the script
	return err
}

// Subscription listens for tasks to cancel.
type Subscription struct {
	pubsub *redis.PubSub
	pinged bool // and heard nothing since
}

// SubscribeCancel starts to listen. Messages sent before it returns are not heard.
func (b *Broker) SubscribeCancel(ctx context.Context) (*Subscription, error) {
	pubsub := b.client.Subscribe(ctx, b.queues.namespace.Cancel())
	if _, err := pubsub.Receive(ctx); err != nil {
		_ = pubsub.Close() // the error that matters is the one before
		return nil, fmt.Errorf("rdb: subscribing to cancellations: %w", err)
	}
	return &Subscription{pubsub: pubsub}, nil
}

// Next waits for a task to cancel, and returns a message that wire.ParseCancel reads. It returns "" where none came within the patience
// of one wait, after which the connection is known to live, and the ctx's error as soon as ctx ends.
func (s *Subscription) Next(ctx context.Context) (string, error) {
	stop := context.AfterFunc(ctx, s.Close)
	defer stop()
	const patience = time.Minute
	msg, err := s.pubsub.ReceiveTimeout(ctx, patience)
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	var timeout interface{ Timeout() bool }
	switch {
	case err == nil:
		s.pinged = false
	case errors.As(err, &timeout) && timeout.Timeout() && !s.pinged:
		s.pinged = true // a dead connection fails to write, or stays silent for one more wait
		err = s.pubsub.Ping(ctx)
	}
	if err != nil {
		return "", fmt.Errorf("rdb: listening for cancellations: %w", err)
	}
	if m, ok := msg.(*redis.Message); ok {
		return m.Payload, nil
	}
	return "", nil
}

// Close ends the subscription, and a Next that waits.
func (s *Subscription) Close() { _ = s.pubsub.Close() } // only ever fails where it is closed already
