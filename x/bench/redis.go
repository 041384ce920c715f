package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/proctest"
)

const (
	// emptyWithin is how long the connections of a lane may take to close.
	emptyWithin = 20 * time.Second
	// pollEvery is how often a state is looked at that tells nobody of its changes.
	pollEvery = time.Millisecond
)

// redisServer is a redis-server process on a loopback port, with nothing on disk.
type redisServer struct {
	*proctest.Redis
	conn *redis.Client
}

// startRedis starts a server. The caller stops it.
func startRedis() (*redisServer, error) {
	server, err := proctest.NewRedis()
	if err != nil {
		return nil, err
	}
	return &redisServer{server, redis.NewClient(&redis.Options{Addr: server.Addr()})}, nil
}

// empty waits until nobody else is connected, and deletes everything.
func (s *redisServer) empty(ctx context.Context) error {
	own := int(s.conn.PoolStats().TotalConns)
	err := poll(ctx, emptyWithin, func() (bool, error) {
		n, err := infoOf(ctx, s.conn, "clients", "connected_clients")
		return int(n) <= max(own, 1), err
	})
	if err != nil {
		return fmt.Errorf("the last lane's connections stay open: %w", err)
	}
	return s.conn.FlushAll(ctx).Err()
}

// version is the server's.
func (s *redisServer) version(ctx context.Context) string {
	info, _ := s.conn.Info(ctx, "server").Result() // the report can do without
	return infoField(info, "redis_version")
}

func (s *redisServer) stop() {
	_ = s.conn.Close()
	s.Close()
}

// poll calls is until it says true, for a while at most.
func poll(ctx context.Context, patience time.Duration, is func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ticker := time.NewTicker(pollEvery)
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

// infoField returns a field of the answer to INFO, "" if it is not there.
func infoField(info, name string) string {
	_, after, ok := strings.Cut("\n"+info, "\n"+name+":")
	if !ok {
		return ""
	}
	value, _, _ := strings.Cut(after, "\n")
	return strings.TrimSpace(value)
}

// infoOf asks for a field of INFO that is a number.
func infoOf(ctx context.Context, conn redis.UniversalClient, section, name string) (float64, error) {
	info, err := conn.Info(ctx, section).Result()
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(infoField(info, name), 64)
}
