package rdb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// Reply is the end of a task, as a client that waits for it learns.
type Reply struct {
	Queue   string
	ID      string
	Outcome ReplyOutcome
	Result  []byte
}

// ReplyOutcome is how a task has ended.
type ReplyOutcome string

// The outcomes.
const (
	ReplySucceeded ReplyOutcome = "succeeded" // with its result
	ReplyUnread    ReplyOutcome = "unread"    // succeeded, with a result that must be read
	ReplyFailed    ReplyOutcome = "failed"    // archived
	ReplyDeleted   ReplyOutcome = "deleted"
)

// maxReplies is the maximum number of replies that are read at a time after one has arrived.
const maxReplies = 200

// Replies calls receive with replies to a client for tasks of queues of one lane. It waits for the
// first one, for up to a timeout of whole seconds, and then reads those that have arrived too.
func (b *Broker) Replies(ctx context.Context, client string, queues []string, timeout time.Duration, receive func(Reply)) error {
	keys, of := make([]string, len(queues)), make(map[string]string, len(queues))
	for i, queue := range queues {
		keys[i] = b.Keys(queue).Replies(client)
		of[keys[i]] = queue
	}
	first, err := b.Client().BLPop(ctx, timeout, keys...).Result()
	if errors.Is(err, redis.Nil) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("rdb: waiting for the ends of tasks: %w", err)
	}
	for texts := first[1:]; len(texts) > 0; {
		for _, text := range texts {
			if r, ok := parseReply(text); ok {
				r.Queue = of[first[0]]
				receive(r)
			}
		}
		texts, err = b.Client().LPopCount(ctx, first[0], maxReplies).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return fmt.Errorf("rdb: reading the ends of tasks: %w", err)
		}
	}
	return nil
}

// parseReply decodes an element of a list of replies. It returns false for one that only ends the
// wait.
func parseReply(text string) (r Reply, ok bool) {
	length, rest, ok1 := strings.Cut(text, " ")
	outcome, rest, ok2 := strings.Cut(rest, " ")
	n, err := strconv.Atoi(length)
	if !ok1 || !ok2 || err != nil || n < 0 || n > len(rest) {
		return r, false
	}
	return Reply{ID: rest[:n], Outcome: ReplyOutcome(outcome), Result: []byte(rest[n:])}, true
}

// EndReplies ends a call of Replies that waits for replies for the queue.
func (b *Broker) EndReplies(ctx context.Context, client, queue string) {
	key := b.Keys(queue).Replies(client)
	_, _ = b.Client().Pipelined(ctx, func(pipe redis.Pipeliner) error { // without it, the wait takes longer
		pipe.RPush(ctx, key, "")
		pipe.Expire(ctx, key, time.Minute)
		return nil
	})
}

// Await makes a client wait for the end of a task. It returns the state of the task, 0 if it does
// not exist, and whether its end will be reported; otherwise the client must poll.
func (b *Broker) Await(ctx context.Context, client, queue, id string) (state wire.State, reported bool, err error) {
	c := script.NewCall(awaitScript, 1+1).Key(b.Keys(queue).Task(id)).Arg(client)
	b.Run(ctx, c)
	r := c.Read()
	state, _ = wire.ParseState(r.Text()) // 0 for ""
	reported = r.Bool()
	return state, reported, r.Err()
}

// statesPage is the maximum number of states that one call of States reads.
const statesPage = 1000

// States returns the states of tasks of a queue, many with one call; 0 for a task that does not
// exist.
func (b *Broker) States(ctx context.Context, queue string, ids []string) ([]wire.State, error) {
	states := make([]wire.State, 0, len(ids))
	var calls []*script.Call
	for page := range slices.Chunk(ids, statesPage) {
		c := script.NewCall(statesScript, len(page))
		for _, id := range page {
			c.Key(b.Keys(queue).Task(id))
		}
		calls = append(calls, c)
	}
	b.Run(ctx, calls...)
	for _, c := range calls {
		r := c.Read()
		for r.More() {
			state, _ := wire.ParseState(r.Text()) // 0 for "" and for data that is invalid
			states = append(states, state)
		}
		if err := r.Err(); err != nil {
			return nil, err
		}
	}
	if len(states) != len(ids) {
		return nil, fmt.Errorf("rdb: %d states of %d tasks", len(states), len(ids))
	}
	return states, nil
}
