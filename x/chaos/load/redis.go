package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/x/chaos/site"
)

// redisServer is a server with nothing on disk, which notes each command of more than a millisecond.
type redisServer struct {
	site *site.Site
	addr string
	conn *redis.Client // the harness's own
}

// startRedis starts a server. The caller stops it.
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
	_ = s.conn.Close()
	_ = s.site.Close() // the figures are there
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
