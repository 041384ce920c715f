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

// startWithin is how long a redis-server may take until it answers, and until it ends.
const startWithin = 20 * time.Second

// redisServer is a redis-server process on a loopback port, with nothing on disk.
type redisServer struct {
	addr string
	dir  string
	cmd  *exec.Cmd
	conn *redis.Client // the harness's own
}

// startRedis starts a server. The caller stops it.
func startRedis(ctx context.Context) (*redisServer, error) {
	dir, err := os.MkdirTemp("", "asynq-load-")
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
	// The kernel ends the child with the thread that started it, which lives as long as the process: nothing here locks one.
	cmd := exec.Command("redis-server", "--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--port", port, "--dir", dir,
		"--logfile", "redis.log", "--slowlog-log-slower-than", "1000", "--slowlog-max-len", "100000")
	dieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting redis-server (is it installed?): %w", err)
	}
	s := &redisServer{addr: addr, dir: dir, cmd: cmd, conn: redis.NewClient(&redis.Options{Addr: addr})}
	err = poll(ctx, startWithin, func() (bool, error) {
		pid, err := s.info(ctx, "server", "process_id")
		return err == nil && int(pid) == cmd.Process.Pid, nil
	})
	if err != nil {
		s.end()
		return nil, fmt.Errorf("redis-server does not answer: %w", err)
	}
	return s, nil
}

// info reads one number of INFO.
func (s *redisServer) info(ctx context.Context, section, field string) (float64, error) {
	text, err := s.conn.Info(ctx, section).Result()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), field+":"); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("INFO %s has no %s", section, field)
}

// cpu is how many seconds of CPU time the server has used.
func (s *redisServer) cpu(ctx context.Context) float64 {
	sys, _ := s.info(ctx, "cpu", "used_cpu_sys") // a figure of the report only
	user, _ := s.info(ctx, "cpu", "used_cpu_user")
	return sys + user
}

// slowest is the longest command since the last call that took more than a millisecond, 0 if none did, and what it was.
func (s *redisServer) slowest(ctx context.Context) (longest time.Duration, name string) {
	entries, _ := s.conn.SlowLogGet(ctx, -1).Result() // a figure of the report only
	_ = s.conn.SlowLogReset(ctx).Err()
	for _, e := range entries {
		if e.Duration > longest {
			longest, name = e.Duration, commandName(e.Args)
		}
	}
	return longest, name
}

// commandName is what a command does, and the first key that it names: of a script, the first ones of its SHA-1 or of its text.
func commandName(args []string) string {
	shown := args[:min(len(args), 2)]
	if len(args) > 3 && strings.HasPrefix(strings.ToLower(args[0]), "eval") {
		shown = []string{args[0], args[1][:min(len(args[1]), 8)], args[2], args[3]}
	}
	return strings.Join(strings.Fields(strings.Join(shown, " ")), " ")
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
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for {
		if ok, err := is(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}
