package rdb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// presenceTTL is how long a server counts as running after its last heartbeat.
const presenceTTL = 10 * time.Second

// Presence is the state that a server publishes.
type Presence struct {
	Process wire.Process
	Info    []byte       // encoded ServerInfo
	Poller  *wire.Poller // the worker that the ServerInfo describes; nil for a server

	Patterns []byte // of the types that it handles, encoded; nil: unknown
	Parts    []byte // encoded ServerPartitions; nil: no queue has partitions
	Control  []byte // encoded ServerControl; nil: it knows no commands

	Started map[string][]byte // task ID or wire.WorkerField → encoded WorkerInfo, since the last heartbeat
	Ended   []string          // task IDs or fields
	Busy    bool              // tasks are running
	Known   bool              // the last heartbeat had running tasks
	Replace bool              // Started has all running tasks: whatever Redis has is deleted

	Forgotten bool  // Redis has lost the running tasks: the next heartbeat must include all of them
	Err       error // the error of the pipeline
}

// maxPresences limits the servers that one pipeline publishes.
const maxPresences = 100

// Publish publishes heartbeats: the state of servers, and the changes of their running tasks. It
// sets the Forgotten and Err of each.
func (b *Broker) Publish(ctx context.Context, all ...*Presence) {
	for some := range slices.Chunk(all, maxPresences) {
		alive := make([]*redis.BoolCmd, len(some))
		_, err := b.Client().Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i, p := range some {
				alive[i] = b.publishPresence(ctx, pipe, p)
			}
			return nil
		})
		for i, p := range some {
			p.Forgotten, p.Err = alive[i] != nil && !alive[i].Val(), nil
			if err != nil {
				p.Forgotten, p.Err = true, fmt.Errorf("rdb: publishing the server's state: %w", err)
			}
		}
	}
}

// publishPresence adds the commands of Publish to a pipeline. alive receives whether Redis still
// has the running tasks; it is nil if there were none.
func (b *Broker) publishPresence(ctx context.Context, pipe redis.Pipeliner, p *Presence) (alive *redis.BoolCmd) {
	ns := b.Namespace()
	server, workers := ns.Server(p.Process), ns.ServerWorkers(p.Process)
	expiry := float64(time.Now().Add(presenceTTL).Unix())
	pipe.Set(ctx, server, p.Info, presenceTTL)
	if p.Poller != nil { // set after the info: without it the info describes a server
		pipe.Set(ctx, wire.ServerPoller(server), p.Poller.Encode(), presenceTTL)
	}
	if p.Patterns != nil {
		pipe.Set(ctx, wire.ServerPatterns(server), p.Patterns, presenceTTL)
	}
	if p.Parts != nil {
		pipe.Set(ctx, wire.ServerPartitionsKey(server), p.Parts, presenceTTL)
	}
	if p.Control != nil {
		pipe.Set(ctx, wire.ServerControlKey(server), p.Control, presenceTTL)
	}
	pipe.ZAdd(ctx, ns.Servers(), redis.Z{Score: expiry, Member: server})
	switch {
	case p.Replace:
		pipe.Del(ctx, workers)
	case p.Known:
		alive = pipe.Expire(ctx, workers, presenceTTL)
	}
	for ended := range slices.Chunk(p.Ended, script.MaxBatch) {
		pipe.HDel(ctx, workers, ended...)
	}
	values, bytes := make([]any, 0, 2*min(len(p.Started), script.MaxBatch)), 0
	for id, info := range p.Started {
		if len(values) == 2*script.MaxBatch || bytes+len(info) > script.MaxBatchBytes && bytes > 0 {
			pipe.HSet(ctx, workers, values...)
			values, bytes = make([]any, 0, cap(values)), 0
		}
		values = append(values, id, info)
		bytes += len(info)
	}
	if len(values) > 0 {
		pipe.HSet(ctx, workers, values...)
	}
	if p.Busy {
		pipe.Expire(ctx, workers, presenceTTL)
		pipe.ZAdd(ctx, ns.Workers(), redis.Z{Score: expiry, Member: workers})
	} else if p.Replace || len(p.Ended) > 0 {
		pipe.Del(ctx, workers)
		pipe.ZRem(ctx, ns.Workers(), workers)
	}
	return alive
}

// Withdraw deletes the published state of servers.
func (b *Broker) Withdraw(ctx context.Context, processes ...wire.Process) error {
	ns := b.Namespace()
	for some := range slices.Chunk(processes, maxPresences) {
		_, err := b.Client().Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for _, p := range some {
				server, workers := ns.Server(p), ns.ServerWorkers(p)
				pipe.ZRem(ctx, ns.Servers(), server)
				pipe.ZRem(ctx, ns.Workers(), workers)
				pipe.Del(ctx, server, wire.ServerPoller(server), wire.ServerPatterns(server), wire.ServerPartitionsKey(server),
					wire.ServerControlKey(server), wire.ServerCommands(server))
				pipe.Del(ctx, workers)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("rdb: withdrawing the server's state: %w", err)
		}
	}
	return nil
}

// Cancel publishes a request to cancel the task with this ID.
func (b *Broker) Cancel(ctx context.Context, id string) error {
	if err := b.Client().Publish(ctx, b.Namespace().Cancel(), id).Err(); err != nil {
		return fmt.Errorf("rdb: asking to cancel a task: %w", err)
	}
	return nil
}

// CancelTo publishes a request to cancel the task with this ID and settle it with the given
// outcome. Servers of this library receive the outcome first; the plain ID, which other libraries
// understand, then finds the task canceled.
func (b *Broker) CancelTo(ctx context.Context, id string, fate wire.CancelOutcome) error {
	c := script.NewCall(cancelScript, 3).Arg(b.Namespace().Cancel(), wire.CancelMessage(id, fate), id)
	b.Run(ctx, c)
	_, err := c.Int() // the error names the script
	return err
}

// Subscription receives the messages of a channel.
type Subscription struct {
	pubsub  *redis.PubSub
	channel string
	other   func(message string) // receives the messages of another channel; nil if there is none
	maxWait time.Duration        // before it pings a connection without messages
	pinged  bool                 // without a message since
}

// Subscribe subscribes to cancellations, in the format of wire.ParseCancel. Earlier messages are
// not received.
func (b *Broker) Subscribe(ctx context.Context) (*Subscription, error) {
	channel := b.Namespace().Cancel()
	s := &Subscription{pubsub: b.Client().Subscribe(ctx, channel), channel: channel, maxWait: time.Minute}
	err := s.start(ctx)
	return s, err
}

// confirmTimeout is how long a subscription waits for its confirmation. On a connection that is
// stuck, nothing would end the wait.
const confirmTimeout = 2 * time.Second

// start waits for the confirmation of the subscription.
func (s *Subscription) start(ctx context.Context) error {
	if _, err := s.pubsub.ReceiveTimeout(ctx, confirmTimeout); err != nil {
		s.Close() // return the error of the subscription
		return fmt.Errorf("rdb: subscribing: %w", err)
	}
	return nil
}

// Next waits for a message of the channel. It returns "" if none arrived within one wait, after
// which the connection is known to be alive, and the error of ctx when ctx ends.
func (s *Subscription) Next(ctx context.Context) (string, error) {
	stop := context.AfterFunc(ctx, s.Close)
	defer stop()
	msg, err := s.pubsub.ReceiveTimeout(ctx, s.maxWait)
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	var timeout interface{ Timeout() bool }
	switch {
	case err == nil:
		s.pinged = false
	case errors.As(err, &timeout) && timeout.Timeout() && !s.pinged:
		s.pinged = true // a dead connection fails to write, or receives nothing in the next wait
		err = s.pubsub.Ping(ctx)
	}
	if err != nil {
		return "", fmt.Errorf("rdb: waiting for a message: %w", err)
	}
	m, ok := msg.(*redis.Message)
	switch {
	case ok && m.Channel == s.channel:
		return m.Payload, nil
	case ok && s.other != nil:
		s.other(m.Payload)
	}
	return "", nil
}

// Close ends the subscription and a waiting Next.
func (s *Subscription) Close() { _ = s.pubsub.Close() } // only ever fails where it is closed already
