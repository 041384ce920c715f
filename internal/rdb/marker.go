package rdb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/redisopt"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// Waiting returns the queues that have pending tasks. Except on a Cluster, it is one command if
// none has, which is the common case.
func (b *Broker) Waiting(ctx context.Context, queues []string) ([]string, error) {
	waiting, err := b.Filled(ctx, queues, wire.Queue.Pending)
	if err != nil {
		return nil, err
	}
	if b.Cluster() != nil && len(waiting) > 0 {
		// If an announcement was lost, its marker would prevent the next one.
		if _, err := b.takeMarkers(ctx, waiting); err != nil {
			return nil, err
		}
	}
	return waiting, nil
}

// PassMarker sets the marker of a queue for another server if the queue has pending tasks and is
// not paused. It is a fetch of no tasks.
func (b *Broker) PassMarker(ctx context.Context, queue string) error {
	f := &Fetch{Queue: queue, Mark: true}
	c := b.fetchCall(f)
	c.Once = false
	b.Run(ctx, c)
	f.read(c)
	return f.Err
}

// Waiter waits for the markers of the queues of one lane.
type Waiter interface {
	// Wait blocks until the marker of a queue is set, takes it, and returns the queue's name. It
	// returns "" after the timeout, or if the waiter was unblocked. If ctx ends, it returns the
	// error of ctx at once; a marker received at that moment is lost until PassMarker sets it
	// again.
	Wait(ctx context.Context, queues []string, timeout time.Duration) (string, error)
	// Unblock ends a running Wait, or the next one.
	Unblock(ctx context.Context) error
	// Close releases the resources of the waiter, which must not be waiting.
	Close()
}

// NewWaiter returns a waiter for queues of a lane. name must be unique among all waiters. For
// several queues of a Cluster it is an AnnouncedWaiter.
func (b *Broker) NewWaiter(lane []string, name string) Waiter {
	if b.Cluster() != nil && len(lane) > 1 {
		return b.newAnnouncedWaiter(lane)
	}
	return &blockingWaiter{broker: b, unblock: b.Queue(lane[0]).Keys.Unblock(name)}
}

// blockingWaiter blocks on the markers. It has its own client, and closes it to end a wait at once,
// because a blocked BLPOP does not honor a context.
type blockingWaiter struct {
	broker  *Broker
	unblock string // the waiter's own list: an element ends a wait and keeps the connection

	mu     sync.Mutex
	client *redis.Client
	conns  *connSet // of the client
}

// Wait waits. After the end of ctx, older releases of go-redis wait for the dialer, which returns
// when ctx ends or, with TLS, after DialTimeout.
func (w *blockingWaiter) Wait(ctx context.Context, queues []string, timeout time.Duration) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	keys := make([]string, 0, len(queues)+1)
	for _, name := range queues {
		keys = append(keys, w.broker.Queue(name).Keys.Marker())
	}
	keys = append(keys, w.unblock)
	client, err := w.connect(ctx, keys[0])
	if err != nil {
		return "", err
	}
	if client == w.broker.Client() {
		timeout = min(timeout, time.Second) // it cannot be interrupted
	}
	hungUp := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(hungUp)
		w.Close()
	})
	defer func() {
		if !stop() {
			<-hungUp // otherwise it would close the connection of the next wait
		}
	}()
	popped, err := client.BLPop(ctx, timeout, keys...).Result()
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.Is(err, redis.Nil):
		return "", nil
	case err != nil:
		if script.Refused(err) {
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

// dropForeign deletes markers that are not lists. No other data uses these keys, and a marker that
// cannot be popped would block all queues of the lane. The next error reports the problem.
func (w *blockingWaiter) dropForeign(ctx context.Context, markers []string) {
	for _, key := range markers {
		if typ, err := w.broker.Client().Type(ctx, key).Result(); err == nil && typ != "list" && typ != "none" {
			_ = w.broker.Client().Del(ctx, key).Err()
		}
	}
}

// Unblock pushes an element to the waiter's own list.
func (w *blockingWaiter) Unblock(ctx context.Context) error {
	_, err := w.broker.Client().Pipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.LPush(ctx, w.unblock, 1)
		pipe.Expire(ctx, w.unblock, time.Minute)
		return nil
	})
	if err != nil {
		return fmt.Errorf("rdb: unblocking the waiter: %w", err)
	}
	return nil
}

// Close closes the connection. A later Wait opens a new one.
func (w *blockingWaiter) Close() {
	w.mu.Lock()
	client, conns := w.client, w.conns
	w.client, w.conns = nil, nil
	w.mu.Unlock()
	if client != nil {
		conns.close()
		_ = client.Close() // fails only if it is closed already
	}
}

// connect returns the waiter's own client, with the options of the broker's client and a pool of
// one connection, or the broker's client if it is of a kind that cannot be copied.
func (w *blockingWaiter) connect(ctx context.Context, key string) (redis.UniversalClient, error) {
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
		return w.broker.Client(), nil
	}
	opt := *node.Options()
	opt.PoolSize, opt.MaxRetries = 1, -1
	// Clients must not share the objects that go-redis creates to receive notifications of Redis.
	redisopt.Reset(&opt, "MinIdleConns", "MaxIdleConns", "MaxActiveConns", "PipelinePoolSize",
		"PushNotificationProcessor", "ClientSideCache", "ClientSideCacheConfig")
	redisopt.DisableMaintNotifications(&opt)
	conns := &connSet{dial: opt.Dialer}
	opt.Dialer = conns.dialContext
	own := redis.NewClient(&opt)
	w.mu.Lock()
	w.client, w.conns = own, conns
	w.mu.Unlock()
	return own, nil
}

// connSet holds the connections of a waiter's client. Closing the client is not enough: in older
// releases of go-redis, a connection that is being dialed survives it, and its BLPOP continues.
// Closing the last connection is not enough either: newer releases dial in the background, and an
// earlier connection may serve the current wait.
type connSet struct {
	dial func(ctx context.Context, network, addr string) (net.Conn, error)

	mu     sync.Mutex
	closed bool
	conns  []net.Conn // the most recent ones; the pool has one at a time
}

// maxConns is the number of connections that a connSet keeps.
const maxConns = 8

func (s *connSet) dialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := s.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = conn.Close() // unused
		return nil, net.ErrClosed
	}
	if len(s.conns) == maxConns {
		s.conns = slices.Delete(s.conns, 0, 1)
	}
	s.conns = append(s.conns, conn)
	return conn, nil
}

// close closes the connections, including those that are still being dialed.
func (s *connSet) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, conn := range s.conns {
		_ = conn.Close() // go-redis may have closed it
	}
}

// node returns the client of the server that holds the key, or nil for client types other than
// go-redis's own.
func (b *Broker) node(ctx context.Context, key string) (*redis.Client, error) {
	switch c := b.Client().(type) {
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
