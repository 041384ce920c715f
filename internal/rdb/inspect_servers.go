package rdb

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/wire"
)

// maxServers bounds the servers that one pipeline asks about.
const maxServers = 50

// Servers lists the living servers, and their workers by the ID of the server. What cannot be read is left out.
func (b *Broker) Servers(ctx context.Context) ([]*wire.ServerInfo, map[string][]*wire.WorkerInfo, error) {
	keys, err := b.living(ctx, b.queues.namespace.Servers())
	if err != nil {
		return nil, nil, err
	}
	var servers []*wire.ServerInfo
	for page := range slices.Chunk(keys, maxServers) {
		infos := make([]*redis.StringCmd, len(page))
		_, _ = b.client.Pipelined(ctx, func(pipe redis.Pipeliner) error { // the errors are the commands'
			for i, key := range page {
				infos[i] = pipe.Get(ctx, key)
			}
			return nil
		})
		for _, info := range infos {
			encoded, err := info.Bytes()
			if ignoreRefused(err) != nil {
				return nil, nil, fmt.Errorf("rdb: listing servers: %w", err)
			}
			if err != nil {
				continue // it has ended since, or is something else
			}
			if s, err := wire.DecodeServerInfo(encoded); err == nil {
				servers = append(servers, s)
			}
		}
	}
	workers := make(map[string][]*wire.WorkerInfo)
	if keys, err = b.living(ctx, b.queues.namespace.Workers()); err != nil {
		return nil, nil, err
	}
	for page := range slices.Chunk(keys, maxServers) {
		running, err := b.running(ctx, page)
		if err != nil {
			return nil, nil, err
		}
		for _, w := range running {
			workers[w.ServerID] = append(workers[w.ServerID], w)
		}
	}
	return servers, workers, nil
}

// running reads the workers under the keys, a part of each in one round trip: a server may have tens of thousands.
func (b *Broker) running(ctx context.Context, keys []string) (all []*wire.WorkerInfo, err error) {
	type scan struct {
		key    string
		cursor uint64
		cmd    *redis.ScanCmd
		seen   map[string]struct{} // task IDs: a scan may come upon one twice
	}
	scans := make([]*scan, len(keys))
	for i, key := range keys {
		scans[i] = &scan{key: key, seen: make(map[string]struct{})}
	}
	for len(scans) > 0 {
		_, _ = b.client.Pipelined(ctx, func(pipe redis.Pipeliner) error { // the errors are the commands'
			for _, s := range scans {
				s.cmd = pipe.HScan(ctx, s.key, s.cursor, "", maxBatch)
			}
			return nil
		})
		for _, s := range scans {
			var values []string
			values, s.cursor, err = s.cmd.Result()
			if ignoreRefused(err) != nil {
				return nil, fmt.Errorf("rdb: listing workers: %w", err)
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

// Started looks up when the servers began to process active tasks of a queue. What no server tells of is not in the map.
func (b *Broker) Started(ctx context.Context, queue string, ids []string) (map[string]time.Time, error) {
	started := make(map[string]time.Time, len(ids))
	if len(ids) == 0 {
		return started, nil
	}
	keys, err := b.living(ctx, b.queues.namespace.Workers())
	if err != nil {
		return nil, err
	}
	for page := range slices.Chunk(keys, maxServers) {
		running := make([]*redis.SliceCmd, len(page))
		_, _ = b.client.Pipelined(ctx, func(pipe redis.Pipeliner) error { // the errors are the commands'
			for i, key := range page {
				running[i] = pipe.HMGet(ctx, key, ids...)
			}
			return nil
		})
		for _, r := range running {
			if err := ignoreRefused(r.Err()); err != nil {
				return nil, fmt.Errorf("rdb: looking up workers: %w", err)
			}
			for i, v := range r.Val() {
				encoded, ok := v.(string)
				if !ok {
					continue
				}
				if w, err := wire.DecodeWorkerInfo([]byte(encoded)); err == nil && w.Queue == queue {
					started[ids[i]] = w.StartTime
				}
			}
		}
	}
	return started, nil
}

// living lists the keys of processes in one of the sets of these. Whether a process lives is for the TTL of its key to say; the
// scores are by its host's clock, and only keep out what was left behind long ago.
func (b *Broker) living(ctx context.Context, set string) ([]string, error) {
	since := strconv.FormatInt(b.now().Add(-time.Minute).Unix(), 10)
	keys, err := b.client.ZRangeByScore(ctx, set, &redis.ZRangeBy{Min: since, Max: "+inf"}).Result()
	if err != nil {
		return nil, fmt.Errorf("rdb: listing %s: %w", set, err)
	}
	return keys, nil
}
