package rate

import (
	"context"
	"fmt"
	"iter"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
)

// State is the state of a token bucket or a semaphore in Redis.
type State struct {
	// Semaphore distinguishes semaphores from the buckets of limiters.
	Semaphore bool

	// Scope is the scope of the Limiter or Semaphore.
	Scope string

	// Key is the key of the bucket; empty for a semaphore.
	Key string

	// Tokens is the number of whole tokens that the bucket had at LastUsed, or the number of tokens
	// of the semaphore that are in use. Redis stores neither limits nor rates.
	Tokens int

	// LastUsed is when the bucket was last used; zero for a semaphore.
	LastUsed time.Time

	// NextTurn is when the last rejected caller of the bucket may return; zero if it may already,
	// and for a semaphore.
	NextTurn time.Time

	// Until is when the bucket is full at the latest, or the last deadline of a task with a token
	// of the semaphore; zero if no token is in use.
	Until time.Time
}

// scanPage is the number of keys that a call of SCAN checks.
const scanPage = 1000

// List yields the states of the buckets and semaphores in the namespace of rco, in no particular
// order. Full buckets have no state. It checks all keys of the database, 1,000 per call, also those
// of other programs; maxScan limits the number of calls of each node times 1,000, and zero means no
// limit. A state that is created or deleted during the iteration may or may not be yielded, and may
// be yielded twice.
//
// An error comes with a nil state and ends the iteration: asynq.ErrScanLimit (errors.Is), the error
// of ctx, or an error of Redis. It panics if rco cannot make a connection.
func List(ctx context.Context, rco asynq.RedisConnOpt, maxScan int) iter.Seq2[*State, error] {
	return func(yield func(*State, error) bool) {
		if ctx == nil {
			yield(nil, errNilContext)
			return
		}
		c := connect(rco)
		if c.owned {
			defer c.client.Close()
		}
		nodes, err := c.nodes(ctx)
		if err != nil {
			yield(nil, fmt.Errorf("rate: list: %w", err))
			return
		}
		for _, node := range nodes {
			for _, kind := range []string{"rate", "sema"} {
				if more, err := c.list(ctx, node, kind, maxScan, yield); err != nil {
					yield(nil, fmt.Errorf("rate: list: %w", err))
					return
				} else if !more {
					return
				}
			}
		}
	}
}

// nodes returns the clients whose keys must be scanned: the primaries of a Cluster.
func (c connection) nodes(ctx context.Context) ([]redis.Cmdable, error) {
	cluster, ok := c.client.(*redis.ClusterClient)
	if !ok {
		return []redis.Cmdable{c.client}, nil
	}
	var mu sync.Mutex
	var nodes []redis.Cmdable
	err := cluster.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		nodes = append(nodes, node)
		return nil
	})
	return nodes, err
}

// list yields the states of one kind on a node. It returns false if yield does.
func (c connection) list(ctx context.Context, node redis.Cmdable, kind string, maxScan int, yield func(*State, error) bool) (bool, error) {
	prefix := c.namespace + ":" + kind + ":"
	cursor := uint64(0)
	for scanned := scanPage; ; scanned += scanPage {
		keys, next, err := node.Scan(ctx, cursor, globEscaper.Replace(prefix)+"*", scanPage).Result()
		if err != nil {
			return false, err
		}
		states, err := readStates(ctx, node, kind, prefix, keys)
		if err != nil {
			return false, err
		}
		for _, s := range states {
			if !yield(s, nil) {
				return false, nil
			}
		}
		switch cursor = next; {
		case cursor == 0:
			return true, nil
		case maxScan > 0 && scanned >= maxScan:
			return false, asynq.ErrScanLimit
		}
	}
}

// globEscaper escapes the characters with a meaning in patterns of SCAN.
var globEscaper = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`)

// readStates reads the states of keys. It skips keys that are gone or have another type.
func readStates(ctx context.Context, node redis.Cmdable, kind, prefix string, keys []string) ([]*State, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	pipe := node.Pipeline()
	now := pipe.Time(ctx)
	texts, ttls := make([]*redis.StringCmd, len(keys)), make([]*redis.DurationCmd, len(keys))
	holders := make([]*redis.ZSliceCmd, len(keys))
	for n, key := range keys {
		if kind == "sema" {
			holders[n] = pipe.ZRevRangeWithScores(ctx, key, 0, maxHolders-1)
		} else {
			texts[n], ttls[n] = pipe.Get(ctx, key), pipe.PTTL(ctx, key)
		}
	}
	_, _ = pipe.Exec(ctx) // each command has its error
	at, err := now.Result()
	if err != nil {
		return nil, err
	}
	var states []*State
	for n, key := range keys {
		var s *State
		if name := strings.TrimPrefix(key, prefix); kind == "sema" {
			s = semaphoreState(name, holders[n], at)
		} else {
			s = bucketState(name, texts[n], ttls[n], at)
		}
		if s != nil {
			states = append(states, s)
		}
	}
	return states, nil
}

// maxHolders is the maximum number of tokens of a semaphore that are counted.
const maxHolders = 10_000

// semaphoreState returns the state of a semaphore, or nil if the key is not one.
func semaphoreState(scope string, holders *redis.ZSliceCmd, now time.Time) *State {
	found, err := holders.Result()
	if err != nil || len(found) == 0 {
		return nil
	}
	s := &State{Semaphore: true, Scope: scope}
	for _, z := range found {
		if z.Score < float64(now.Unix()) {
			break
		}
		s.Tokens++
	}
	if last := found[0].Score; s.Tokens > 0 && last < 1<<40 {
		s.Until = time.Unix(int64(last), 0)
	}
	return s
}

// bucketText matches the text of a bucket: see take.lua.
var bucketText = regexp.MustCompile(`^(\d+) (\d+) ([1-9]\d*) (\d+)$`)

// bucketState returns the state of a bucket, or nil if the key is not one.
func bucketState(name string, text *redis.StringCmd, ttl *redis.DurationCmd, now time.Time) *State {
	scope, key, ok := strings.Cut(name, ":")
	parts := bucketText.FindStringSubmatch(text.Val())
	if !ok || parts == nil {
		return nil
	}
	var n [4]int64
	for i, part := range parts[1:] {
		var err error
		if n[i], err = strconv.ParseInt(part, 10, 64); err != nil {
			return nil
		}
	}
	s := &State{Scope: scopeUnescaper.Replace(scope), Key: key, Tokens: int(n[0] / n[2]), LastUsed: time.UnixMicro(n[1])}
	if turn := time.UnixMicro(n[3]); turn.After(now) {
		s.NextTurn = turn
	}
	if left := ttl.Val(); left > 0 {
		s.Until = now.Add(left)
	}
	return s
}

// scopeUnescaper is the inverse of scopeEscaper.
var scopeUnescaper = strings.NewReplacer("%3A", ":", "%25", "%")
