package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/test/chaos/site"
)

// redisServer is a server without persistence that logs commands of more than a millisecond.
type redisServer struct {
	site *site.Site
	addr string
	conn *redis.Client // of the harness
}

// startRedis starts a server. The caller must stop it.
func startRedis(ctx context.Context) (*redisServer, error) {
	s, err := site.Start(ctx, site.Options{Kind: site.Standalone, Fsync: site.Never})
	if err != nil {
		return nil, err
	}
	r := &redisServer{site: s, addr: s.Nodes()[0].Addr()}
	r.conn = redis.NewClient(&redis.Options{Addr: r.addr})
	for name, value := range map[string]string{"slowlog-log-slower-than": "1000", "slowlog-max-len": "100000"} {
		if err := r.conn.ConfigSet(ctx, name, value).Err(); err != nil {
			r.stop()
			return nil, err
		}
	}
	return r, nil
}

// info reads a numeric field of INFO.
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

// cpu returns the CPU time of the server in seconds.
func (s *redisServer) cpu(ctx context.Context) float64 {
	sys, _ := s.info(ctx, "cpu", "used_cpu_sys") // only for the report
	user, _ := s.info(ctx, "cpu", "used_cpu_user")
	return sys + user
}

// slowest returns the longest command of more than a millisecond since the last call, and its name;
// 0 if there is none.
func (s *redisServer) slowest(ctx context.Context) (longest time.Duration, name string) {
	entries, _ := s.conn.SlowLogGet(ctx, -1).Result() // only for the report
	_ = s.conn.SlowLogReset(ctx).Err()
	for _, e := range entries {
		if e.Duration > longest {
			longest, name = e.Duration, commandName(e.Args)
		}
	}
	return longest, name
}

// commandName returns the command and its first key; for scripts, the beginning of the SHA-1 or
// text.
func commandName(args []string) string {
	shown := args[:min(len(args), 2)]
	if len(args) > 3 && strings.HasPrefix(strings.ToLower(args[0]), "eval") {
		shown = []string{args[0], args[1][:min(len(args[1]), 8)], args[2], args[3]}
	}
	return strings.Join(strings.Fields(strings.Join(shown, " ")), " ")
}

// stop ends the server and removes its directory.
func (s *redisServer) stop() {
	_ = s.conn.Close()
	_ = s.site.Close()
}

// poll calls is until it returns true, or a timeout.
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
