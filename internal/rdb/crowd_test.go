package rdb_test

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/wire"
)

// crowd is a queue whose tasks in one state come and go by hand.
type crowd struct {
	t      fataler
	client redis.UniversalClient
	state  wire.State
	made   int
	in     map[string]bool // the tasks that are in the state
	left   map[string]bool // those that have ever left it
}

type fataler interface {
	Helper()
	Fatal(args ...any)
}

func newCrowd(t fataler, r *redistest.Redis, state wire.State) *crowd {
	return &crowd{t: t, client: r.Client(), state: state, in: make(map[string]bool), left: make(map[string]bool)}
}

const crowdGroup = "asynq:{q}:g:g:h"

func (c *crowd) key() string {
	if c.state == wire.StateAggregating {
		return crowdGroup
	}
	return "asynq:{q}:" + c.state.String()
}

func (c *crowd) do(commands func(pipe redis.Pipeliner)) {
	c.t.Helper()
	if _, err := c.client.Pipelined(context.Background(), func(pipe redis.Pipeliner) error {
		commands(pipe)
		return nil
	}); err != nil {
		c.t.Fatal(err)
	}
}

// join puts n new tasks into the state, as production does: on the left of a list, or anywhere in a sorted set.
func (c *crowd) join(n int, score func() float64) {
	c.t.Helper()
	ctx := context.Background()
	var message []byte
	c.do(func(pipe redis.Pipeliner) {
		for range n {
			id := fmt.Sprintf("n%d", c.made)
			if c.made%3 == 1 {
				id = fmt.Sprintf("%x\xff%d", c.made*7919%97, c.made) // to sort otherwise than it was made
			}
			c.made++
			c.in[id] = true
			if message == nil {
				m := redistest.Message("q", "any")
				var err error
				if message, err = m.Encode(); err != nil {
					c.t.Fatal(err)
				}
			}
			pipe.HSet(ctx, "asynq:{q}:t:"+id, "state", c.state.String(), "msg", message, "group", "g:h")
			c.enter(pipe, id, score)
		}
		if c.state == wire.StateAggregating {
			pipe.SAdd(ctx, "asynq:{q}:groups", "g:h")
		}
	})
}

func (c *crowd) enter(pipe redis.Pipeliner, id string, score func() float64) {
	if c.state == wire.StatePending || c.state == wire.StateActive {
		pipe.LPush(context.Background(), c.key(), id)
	} else {
		pipe.ZAdd(context.Background(), c.key(), redis.Z{Score: score(), Member: id})
	}
}

// leave takes tasks out of the state.
func (c *crowd) leave(ids ...string) {
	c.t.Helper()
	ctx := context.Background()
	c.do(func(pipe redis.Pipeliner) {
		for _, id := range ids {
			delete(c.in, id)
			c.left[id] = true
			pipe.HSet(ctx, "asynq:{q}:t:"+id, "state", "gone")
			if c.state == wire.StatePending || c.state == wire.StateActive {
				pipe.LRem(ctx, c.key(), 1, id)
			} else {
				pipe.ZRem(ctx, c.key(), id)
				pipe.ZRem(ctx, crowdGroup+":set", id)
			}
		}
	})
}

// comeBack puts tasks that have left into the state again: on the left of a list, or on its right if it was given back.
func (c *crowd) comeBack(right bool, score func() float64, ids ...string) {
	c.t.Helper()
	ctx := context.Background()
	c.do(func(pipe redis.Pipeliner) {
		for _, id := range ids {
			c.in[id] = true
			pipe.HSet(ctx, "asynq:{q}:t:"+id, "state", c.state.String())
			if right {
				pipe.RPush(ctx, c.key(), id)
			} else {
				c.enter(pipe, id, score)
			}
		}
	})
}

// stage moves the first n tasks of the group into its aggregation set, as they are, and back moves all of them back.
func (c *crowd) stage(n int64) {
	ctx := context.Background()
	entries, err := c.client.ZRangeWithScores(ctx, crowdGroup, 0, n-1).Result()
	if err != nil {
		c.t.Fatal(err)
	}
	c.do(func(pipe redis.Pipeliner) {
		for _, e := range entries {
			pipe.ZRem(ctx, crowdGroup, e.Member)
			pipe.ZAdd(ctx, crowdGroup+":set", e)
		}
		pipe.ZAdd(ctx, "asynq:{q}:aggregation_sets", redis.Z{Score: 1, Member: crowdGroup + ":set"})
	})
}

func (c *crowd) back() {
	ctx := context.Background()
	c.do(func(pipe redis.Pipeliner) {
		pipe.ZUnionStore(ctx, crowdGroup, &redis.ZStore{Keys: []string{crowdGroup, crowdGroup + ":set"}, Aggregate: "MAX"})
		pipe.Del(ctx, crowdGroup+":set")
		pipe.ZRem(ctx, "asynq:{q}:aggregation_sets", crowdGroup+":set")
	})
}
