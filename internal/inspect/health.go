package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// Node is the state of one Redis server.
type Node struct {
	Addr string
	Info string    // reply to INFO
	Keys int64     // in its database
	Now  time.Time // by its clock
	Err  error     // why it could not be read
}

// Nodes returns the masters behind a client, by address.
func Nodes(ctx context.Context, client redis.UniversalClient) ([]Node, error) {
	var mu sync.Mutex
	var nodes []Node
	read := func(ctx context.Context, c *redis.Client) error {
		n := readNode(ctx, c.Options().Addr, c)
		mu.Lock()
		defer mu.Unlock()
		nodes = append(nodes, n)
		return nil
	}
	var err error
	switch c := client.(type) {
	case *redis.ClusterClient:
		err = c.ForEachMaster(ctx, read)
	case *redis.Ring:
		err = c.ForEachShard(ctx, read)
	case *redis.Client:
		err = read(ctx, c)
	default:
		nodes = []Node{readNode(ctx, "", client)}
	}
	if err != nil {
		return nil, fmt.Errorf("inspect: listing Redis servers: %w", err)
	}
	mu.Lock()
	defer mu.Unlock()
	slices.SortFunc(nodes, func(a, b Node) int { return cmp.Compare(a.Addr, b.Addr) })
	return slices.Clone(nodes), nil
}

func readNode(ctx context.Context, addr string, client redis.UniversalClient) Node {
	pipe := script.Bounded(client).Pipeline()
	info, keys, now := pipe.Info(ctx), pipe.DBSize(ctx), pipe.Time(ctx)
	_, _ = pipe.Exec(ctx) // each command has its own error
	n := Node{Addr: addr, Info: info.Val(), Keys: keys.Val(), Now: now.Val()}
	for _, err := range []error{info.Err(), keys.Err(), now.Err()} {
		if err != nil && n.Err == nil {
			n.Err = fmt.Errorf("inspect: reading the state of Redis: %w", err)
		}
	}
	return n
}

// Process is a server or scheduler that is registered in Redis.
type Process struct {
	wire.Process
	Scheduler bool
	Expired   time.Time     // when its registration expired by its own clock; zero: it is running
	Skew      time.Duration // its clock minus that of Redis; of a running process
}

// maxProcesses limits the processes of each kind that Processes reads, the latest first.
const maxProcesses = 1000

// maxSkew is by how much the clock of a process may be behind for Processes to find it.
const maxSkew = 24 * time.Hour

// Processes returns the running servers and schedulers, and those whose registration has expired
// within a time because they ended without withdrawing it.
//
// A process sets the TTL of its key, which Redis counts down, and the time at which it expires by
// its own clock. The difference is the skew of its clock.
func (b *Inspector) Processes(ctx context.Context, within time.Duration) ([]Process, error) {
	ns := b.Namespace()
	since := &redis.ZRangeBy{
		Min: strconv.FormatInt(time.Now().Add(-max(within, maxSkew)).Unix(), 10), Max: "+inf", Count: maxProcesses,
	}
	type entry struct {
		Process
		key    string
		expiry time.Time
	}
	var entries []entry
	for _, set := range []string{ns.Servers(), ns.Schedulers()} {
		found, err := b.Client().ZRevRangeByScoreWithScores(ctx, set, since).Result()
		if err != nil {
			return nil, fmt.Errorf("inspect: listing %s: %w", set, err)
		}
		for _, z := range found {
			key, _ := z.Member.(string)
			if p, ok := wire.ParseProcess(set, key); ok {
				expiry := time.UnixMilli(int64(z.Score * 1000))
				entries = append(entries, entry{Process{Process: p, Scheduler: set == ns.Schedulers()}, key, expiry})
			}
		}
	}
	pipe := b.Client().Pipeline()
	ttls, now := make([]*redis.DurationCmd, len(entries)), pipe.Time(ctx)
	for n, e := range entries {
		ttls[n] = pipe.PTTL(ctx, e.key)
	}
	if _, err := pipe.Exec(ctx); script.IgnoreRefused(err) != nil {
		return nil, fmt.Errorf("inspect: reading the expiry of processes: %w", err)
	}
	if now.Err() != nil {
		return nil, fmt.Errorf("inspect: reading the clock of Redis: %w", now.Err())
	}
	var all []Process
	for n, e := range entries {
		ttl, err := ttls[n].Result()
		switch {
		case err != nil:
			continue
		case ttl > 0:
			// The score has whole seconds, rounded down: half a second is missing on average.
			e.Skew = e.expiry.Add(time.Second / 2).Sub(now.Val().Add(ttl)).Round(time.Second)
			all = append(all, e.Process)
		case ttl == -2 && e.expiry.Before(now.Val()) && now.Val().Sub(e.expiry) <= within:
			e.Expired = e.expiry
			all = append(all, e.Process)
		}
	}
	return all, nil
}

// maxMutes limits the mutes that are stored.
const maxMutes = 1000

// ErrManyMutes means that a cause was not muted because there are too many mutes.
var ErrManyMutes = errors.New("more than 1,000 causes are muted: unmute some of them first")

// Mutes returns the mutes that have not ended, by the ID of their cause. It skips those that cannot
// be decoded.
func (b *Inspector) Mutes(ctx context.Context) (map[string]wire.Mute, error) {
	mutes, _, err := b.mutes(ctx)
	return mutes, err
}

// mutes also returns the IDs of those that have ended.
func (b *Inspector) mutes(ctx context.Context) (mutes map[string]wire.Mute, ended []string, err error) {
	found, err := b.Client().HGetAll(ctx, b.Namespace().HealthMutes()).Result()
	if err != nil {
		return nil, nil, fmt.Errorf("inspect: reading mutes: %w", err)
	}
	now := time.Now()
	mutes = make(map[string]wire.Mute, len(found))
	for id, encoded := range found {
		if m, err := wire.DecodeMute([]byte(encoded)); err == nil && m.End().After(now) {
			mutes[id] = m
		} else {
			ended = append(ended, id)
		}
	}
	return mutes, ended, nil
}

// Mute stores a mute, and deletes those that have ended.
func (b *Inspector) Mute(ctx context.Context, id string, m wire.Mute) error {
	mutes, ended, err := b.mutes(ctx)
	if err != nil {
		return err
	}
	last := m.End()
	for _, other := range mutes {
		if other.End().After(last) {
			last = other.End()
		}
	}
	if _, ok := mutes[id]; !ok && len(mutes) >= maxMutes {
		return ErrManyMutes
	}
	key := b.Namespace().HealthMutes()
	_, err = b.Client().TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		if len(ended) > 0 {
			pipe.HDel(ctx, key, ended...)
		}
		pipe.HSet(ctx, key, id, m.Encode())
		pipe.PExpire(ctx, key, time.Until(last))
		return nil
	})
	if err != nil {
		return fmt.Errorf("inspect: muting a cause: %w", err)
	}
	return nil
}

// Unmute deletes mutes. It returns how many there were.
func (b *Inspector) Unmute(ctx context.Context, ids ...string) (int, error) {
	if len(ids) == 0 {
		return 0, nil
	}
	n, err := b.Client().HDel(ctx, b.Namespace().HealthMutes(), ids...).Result()
	if err != nil {
		return 0, fmt.Errorf("inspect: unmuting a cause: %w", err)
	}
	return int(n), nil
}
