package inspect

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// maxServers limits the servers per pipeline.
const maxServers = 50

// Server is a running server, or a worker that polls for tasks.
type Server struct {
	*wire.ServerInfo
	Poller   wire.Poller // the zero value for a server
	Patterns []string    // of the types that it handles; nil: unknown

	Partitions wire.ServerPartitions // of its queues that have them

	Key     string              // of its ServerInfo
	Control *wire.ServerControl // nil if it knows no commands
}

// Servers returns the running servers, and their active tasks by server ID. It skips records that
// cannot be decoded.
func (b *Inspector) Servers(ctx context.Context) ([]Server, map[string][]*wire.WorkerInfo, error) {
	keys, err := b.living(ctx, b.Namespace().Servers())
	if err != nil {
		return nil, nil, err
	}
	servers, err := b.servers(ctx, keys)
	if err != nil {
		return nil, nil, err
	}
	workers := make(map[string][]*wire.WorkerInfo)
	if keys, err = b.living(ctx, b.Namespace().Workers()); err != nil {
		return nil, nil, err
	}
	running, err := b.running(ctx, keys)
	for _, w := range running {
		workers[w.ServerID] = append(workers[w.ServerID], w)
	}
	return servers, workers, err
}

// Server returns the running server, or polling worker, with this ID. It reports false if there is
// none.
func (b *Inspector) Server(ctx context.Context, id string) (Server, bool, error) {
	keys, err := b.living(ctx, b.Namespace().Servers())
	if err != nil {
		return Server{}, false, err
	}
	keys = slices.DeleteFunc(keys, func(key string) bool { return !strings.HasSuffix(key, ":"+id+"}") })
	servers, err := b.servers(ctx, keys)
	if n := slices.IndexFunc(servers, func(s Server) bool { return s.ServerID == id }); n >= 0 {
		return servers[n], true, nil
	}
	return Server{}, false, err
}

// servers reads the servers under the keys.
func (b *Inspector) servers(ctx context.Context, keys []string) (servers []Server, err error) {
	read := func(pipe redis.Pipeliner, key string) *redis.SliceCmd {
		return pipe.MGet(ctx, key, wire.ServerPoller(key), wire.ServerPatterns(key), wire.ServerControlKey(key), wire.ServerPartitionsKey(key))
	}
	for n, cmd := range pipelined(ctx, b.Client(), maxServers, keys, read) {
		values, err := cmd.Result()
		if script.IgnoreRefused(err) != nil {
			return nil, fmt.Errorf("inspect: listing servers: %w", err)
		}
		if err != nil || len(values) != 5 {
			continue
		}
		encoded, ok := values[0].(string)
		if !ok {
			continue // it has ended, or is of another type
		}
		if s, err := wire.DecodeServerInfo([]byte(encoded)); err == nil {
			server := Server{ServerInfo: s, Key: keys[n]}
			if text, ok := values[1].(string); ok {
				server.Poller, _ = wire.ParsePoller(text)
			}
			if text, ok := values[2].(string); ok {
				server.Patterns, _ = wire.DecodePatterns(text)
			}
			if text, ok := values[3].(string); ok {
				server.Control, _ = wire.DecodeServerControl(text)
			}
			if text, ok := values[4].(string); ok {
				server.Partitions, _ = wire.DecodeServerPartitions(text)
			}
			servers = append(servers, server)
		}
	}
	return servers, nil
}

// running reads the active tasks under the keys in parts: a server may have tens of thousands.
func (b *Inspector) running(ctx context.Context, keys []string) (all []*wire.WorkerInfo, err error) {
	type scan struct {
		key    string
		cursor uint64
		seen   map[string]struct{} // fields: a scan may return one twice
	}
	scans := make([]*scan, len(keys))
	for i, key := range keys {
		scans[i] = &scan{key: key, seen: make(map[string]struct{})}
	}
	read := func(pipe redis.Pipeliner, s *scan) *redis.ScanCmd {
		return pipe.HScan(ctx, s.key, s.cursor, "", script.MaxBatch)
	}
	for len(scans) > 0 {
		for n, cmd := range pipelined(ctx, b.Client(), maxServers, scans, read) {
			var values []string
			s := scans[n]
			values, s.cursor, err = cmd.Result()
			if script.IgnoreRefused(err) != nil {
				return nil, fmt.Errorf("inspect: listing workers: %w", err)
			}
			for i := 0; i+1 < len(values); i += 2 {
				if _, again := s.seen[values[i]]; again {
					continue
				}
				s.seen[values[i]] = struct{}{}
				if w, err := wire.DecodeWorkerInfo([]byte(values[i+1])); err == nil {
					all = append(all, w)
				}
			}
		}
		scans = slices.DeleteFunc(scans, func(s *scan) bool { return s.cursor == 0 })
	}
	return all, nil
}

// Started returns when servers started active tasks of a queue. Tasks that no server publishes are
// missing.
func (b *Inspector) Started(ctx context.Context, queue string, ids []string) (map[string]time.Time, error) {
	started := make(map[string]time.Time, len(ids))
	if len(ids) == 0 {
		return started, nil
	}
	keys, err := b.living(ctx, b.Namespace().Workers())
	if err != nil {
		return nil, err
	}
	fields := slices.Grow(slices.Clone(ids), len(ids))
	for _, id := range ids {
		fields = append(fields, wire.WorkerField(id, queue))
	}
	read := func(pipe redis.Pipeliner, key string) *redis.SliceCmd { return pipe.HMGet(ctx, key, fields...) }
	for _, cmd := range pipelined(ctx, b.Client(), maxServers, keys, read) {
		if err := script.IgnoreRefused(cmd.Err()); err != nil {
			return nil, fmt.Errorf("inspect: looking up workers: %w", err)
		}
		for i, v := range cmd.Val() {
			encoded, ok := v.(string)
			if !ok {
				continue
			}
			if w, err := wire.DecodeWorkerInfo([]byte(encoded)); err == nil && w.Queue == queue {
				started[ids[i%len(ids)]] = w.StartTime
			}
		}
	}
	return started, nil
}

// living returns the keys of processes in a set. The TTL of a key determines whether its process is
// running; the scores are by the host's clock, which may be wrong, and only exclude old entries.
func (b *Inspector) living(ctx context.Context, set string) ([]string, error) {
	since := strconv.FormatInt(time.Now().Add(-time.Hour).Unix(), 10)
	keys, err := b.Client().ZRangeByScore(ctx, set, &redis.ZRangeBy{Min: since, Max: "+inf"}).Result()
	if err != nil {
		return nil, fmt.Errorf("inspect: listing %s: %w", set, err)
	}
	return keys, nil
}
