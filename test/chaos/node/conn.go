package node

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/test/chaos/network"
)

// conn is the Redis connection of a node. It is a RedisConnOpt of the reference, with the defaults
// of that library.
type conn struct {
	Target
	proxy  string
	breaks atomic.Int64 // number of failed connections
}

// MakeRedisClient returns a new client.
func (c *conn) MakeRedisClient() any {
	switch c.Kind {
	case Cluster:
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs, Dialer: c.dial})
	case Sentinel:
		return redis.NewFailoverClient(&redis.FailoverOptions{MasterName: c.Master, SentinelAddrs: c.Addrs, Dialer: c.dial})
	default:
		return redis.NewClient(&redis.Options{Addr: c.Addrs[0], Dialer: c.dial})
	}
}

func (c *conn) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	inner, err := network.Dial(ctx, c.proxy, addr)
	if err != nil {
		c.breaks.Add(1)
		return nil, err
	}
	return &watched{inner, &c.breaks}, nil
}

// watched counts connection failures, so that a producer knows whether a reply may be for a
// repeated command.
type watched struct {
	net.Conn
	breaks *atomic.Int64
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	w.count(err)
	return n, err
}

func (w *watched) Write(b []byte) (int, error) {
	n, err := w.Conn.Write(b)
	w.count(err)
	return n, err
}

func (w *watched) count(err error) {
	if err != nil && !errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) {
		w.breaks.Add(1)
	}
}
