package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/proctest"
)

const (
	// emptyTimeout is how long the connections of a lane may take to close.
	emptyTimeout = time.Minute
	// pollInterval is the poll interval.
	pollInterval = time.Millisecond
)

// clusterSize is the number of primaries of the Cluster.
const clusterSize = 3

// redisServer is a redis-server process on a loopback port, or several that form a Cluster, without
// persistence.
type redisServer struct {
	nodes []*proctest.Redis
	conns []*redis.Client // one for each node
}

// startRedis starts a server, or a Cluster. The caller must stop it.
func startRedis(cluster bool) (*redisServer, error) {
	s := new(redisServer)
	var err error
	if cluster {
		s.nodes, err = proctest.NewPrimaries(clusterSize)
	} else {
		s.nodes = make([]*proctest.Redis, 1)
		s.nodes[0], err = proctest.NewRedis()
	}
	if err != nil {
		return nil, err
	}
	for _, node := range s.nodes {
		s.conns = append(s.conns, redis.NewClient(&redis.Options{Addr: node.Addr(), ClientName: adminName}))
	}
	return s, nil
}

// addr returns the address for clients.
func (s *redisServer) addr() string { return s.nodes[0].Addr() }

// empty waits until all other clients have disconnected, and deletes everything.
func (s *redisServer) empty(ctx context.Context) error {
	for _, conn := range s.conns {
		own := int(conn.PoolStats().TotalConns)
		err := poll(ctx, emptyTimeout, func() (bool, error) {
			n, err := infoOf(ctx, conn, "clients", "connected_clients")
			return int(n) <= max(own, 1), err
		})
		if err != nil {
			return fmt.Errorf("connections of the previous lane stay open: %w", err)
		}
		if err := conn.FlushAll(ctx).Err(); err != nil {
			return err
		}
	}
	return nil
}

// version returns the version of the server.
func (s *redisServer) version(ctx context.Context) string {
	info, _ := s.conns[0].Info(ctx, "server").Result() // optional in the report
	return infoField(info, "redis_version")
}

// stop is a no-op if s is nil.
func (s *redisServer) stop() {
	if s == nil {
		return
	}
	for i, conn := range s.conns {
		_ = conn.Close()
		s.nodes[i].Close()
	}
}

// eachNode calls do for the server, or for each primary of a Cluster, one after the other.
func eachNode(ctx context.Context, conn redis.UniversalClient, do func(node *redis.Client) error) error {
	switch conn := conn.(type) {
	case *redis.Client:
		return do(conn)
	case *redis.ClusterClient:
		var mu sync.Mutex
		return conn.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			return do(node)
		})
	}
	return fmt.Errorf("unexpected client %T", conn)
}

// poll calls is until it returns true, or a timeout.
func poll(ctx context.Context, timeout time.Duration, is func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		if ok, err := is(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// infoField returns a field of INFO; "" if it is missing.
func infoField(info, name string) string {
	_, after, ok := strings.Cut("\n"+info, "\n"+name+":")
	if !ok {
		return ""
	}
	value, _, _ := strings.Cut(after, "\n")
	return strings.TrimSpace(value)
}

// infoOf reads a numeric field of INFO.
func infoOf(ctx context.Context, conn redis.UniversalClient, section, name string) (float64, error) {
	info, err := conn.Info(ctx, section).Result()
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(infoField(info, name), 64)
}
