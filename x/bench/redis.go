package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// startWithin is how long a redis-server may take until it answers.
	startWithin = 20 * time.Second
	// pollEvery is how often a state is looked at that tells nobody of its changes.
	pollEvery = time.Millisecond
)

// redisServer is a redis-server process on a loopback port, with nothing on disk.
type redisServer struct {
	addr string
	dir  string
	cmd  *exec.Cmd
	conn *redis.Client
}

// startRedis starts a server. The caller stops it.
func startRedis(ctx context.Context) (*redisServer, error) {
	dir, err := os.MkdirTemp("", "asynq-bench-")
	if err != nil {
		return nil, err
	}
	for range 5 { // another process may take the port first
		var s *redisServer
		if s, err = startRedisIn(ctx, dir); err == nil {
			return s, nil
		}
	}
	return nil, errors.Join(err, os.RemoveAll(dir))
}

func startRedisIn(ctx context.Context, dir string) (*redisServer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("redis-server", "--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--port", port, "--dir", dir,
		"--logfile", "redis.log")
	dieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting redis-server (is it installed?): %w", err)
	}
	s := &redisServer{addr: addr, dir: dir, cmd: cmd, conn: redis.NewClient(&redis.Options{Addr: addr})}
	err = poll(ctx, startWithin, func() (bool, error) {
		pid, err := infoOf(ctx, s.conn, "server", "process_id")
		return err == nil && int(pid) == cmd.Process.Pid, nil
	})
	if err != nil {
		s.end()
		return nil, fmt.Errorf("redis-server does not answer: %w", err)
	}
	return s, nil
}

// empty waits until nobody else is connected, and deletes everything.
func (s *redisServer) empty(ctx context.Context) error {
	own := int(s.conn.PoolStats().TotalConns)
	err := poll(ctx, startWithin, func() (bool, error) {
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

// stop ends the server and removes its directory.
func (s *redisServer) stop() {
	s.end()
	_ = os.RemoveAll(s.dir) // a temporary directory
}

func (s *redisServer) end() {
	_ = s.conn.Close()
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
	late := time.AfterFunc(startWithin, func() { _ = s.cmd.Process.Kill() })
	defer late.Stop()
	_ = s.cmd.Wait() // its exit code tells only by what it was ended
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
