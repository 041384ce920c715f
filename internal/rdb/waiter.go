package rdb

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Waiter blocks on the markers of the queues of one lane. It has a client of its own, which it closes to end a wait at once:
// a blocked BLPOP heeds no context.
type Waiter struct {
	broker *Broker
	rouse  string // a list of the waiter's own: an element ends a wait with the connection kept

	mu     sync.Mutex
	client *redis.Client
}

// NewWaiter returns a waiter for queues of a lane. name tells it from all other waiters.
func (b *Broker) NewWaiter(lane []string, name string) *Waiter {
	return &Waiter{broker: b, rouse: b.queues.get(lane[0]).keys.Rouse(name)}
}

// Wait blocks until a queue's marker is there, takes it, and returns the queue's name. It returns "" when the timeout is over or
// the waiter was roused. Where ctx ends first it returns the ctx's error at once; a marker that Redis sent in that moment is lost,
// which PassMarker makes good.
func (w *Waiter) Wait(ctx context.Context, queues []string, timeout time.Duration) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	keys := make([]string, 0, len(queues)+1)
	for _, name := range queues {
		keys = append(keys, w.broker.queues.get(name).keys.Marker())
	}
	keys = append(keys, w.rouse)
	client, err := w.connect(ctx, keys[0])
	if err != nil {
		return "", err
	}
	if client == w.broker.client {
		timeout = min(timeout, time.Second) // nothing can end it before
	}
	// To close the connection that was dialed last would not do: go-redis dials in the background, and one that was dialed for an
	// earlier wait may serve this one.
	hungUp := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(hungUp)
		w.Close()
	})
	defer func() {
		if !stop() {
			<-hungUp // or it would hang up on the next wait
		}
	}()
	popped, err := client.BLPop(ctx, timeout, keys...).Result()
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.Is(err, redis.Nil):
		return "", nil
	case err != nil:
		if Refused(err) {
			w.dropForeign(ctx, keys)
		}
		w.Close() // the node may have changed: look it up again
		return "", fmt.Errorf("rdb: waiting for tasks: %w", err)
	}
	for i, name := range queues {
		if popped[0] == keys[i] {
			return name, nil
		}
	}
	return "", nil
}

// dropForeign deletes markers that are not lists. Nobody else has a use for the keys, and one that cannot be popped would keep all
// queues of the lane from being waited for. The next error tells what goes wrong here.
func (w *Waiter) dropForeign(ctx context.Context, markers []string) {
	for _, key := range markers {
		if typ, err := w.broker.client.Type(ctx, key).Result(); err == nil && typ != "list" && typ != "none" {
			_ = w.broker.client.Del(ctx, key).Err()
		}
	}
}

// Rouse ends a Wait, or the next one if none is on.
func (w *Waiter) Rouse(ctx context.Context) error {
	_, err := w.broker.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.LPush(ctx, w.rouse, 1)
		pipe.Expire(ctx, w.rouse, time.Minute)
		return nil
	})
	if err != nil {
		return fmt.Errorf("rdb: rousing the waiter: %w", err)
	}
	return nil
}

// Close gives up the connection. A later Wait makes a new one.
func (w *Waiter) Close() {
	w.mu.Lock()
	client := w.client
	w.client = nil
	w.mu.Unlock()
	if client != nil {
		_ = client.Close() // only ever fails where it is closed already
	}
}

// connect returns the waiter's own client, with options as the broker's and a pool of one; or the broker's where it is of a kind that
// cannot be copied.
func (w *Waiter) connect(ctx context.Context, key string) (redis.UniversalClient, error) {
	w.mu.Lock()
	client := w.client
	w.mu.Unlock()
	if client != nil {
		return client, nil
	}
	node, err := w.broker.node(ctx, key)
	if err != nil {
		return nil, err
	}
	if node == nil {
		return w.broker.client, nil
	}
	opt := *node.Options()
	opt.PoolSize, opt.MinIdleConns, opt.MaxIdleConns, opt.MaxActiveConns, opt.PipelinePoolSize = 1, 0, 0, 0, 0
	opt.MaxRetries = -1
	// What a client makes for itself to listen to Redis's notifications must not be shared by two.
	opt.PushNotificationProcessor, opt.ClientSideCache, opt.ClientSideCacheConfig = nil, nil, nil
	opt.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	own := redis.NewClient(&opt)
	w.mu.Lock()
	w.client = own
	w.mu.Unlock()
	return own, nil
}

// node returns the client of the one server that holds the key; nil for kinds of clients that are not go-redis's own.
func (b *Broker) node(ctx context.Context, key string) (*redis.Client, error) {
	switch c := b.client.(type) {
	case *redis.Client:
		return c, nil
	case *redis.ClusterClient:
		node, err := c.MasterForKey(ctx, key)
		if err != nil {
			return nil, fmt.Errorf("rdb: looking up the shard of %q: %w", key, err)
		}
		return node, nil
	default:
		return nil, nil
	}
}
