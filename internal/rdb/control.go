package rdb

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/wire"
)

const (
	// commandTTL is how long a command waits for its server after the last one was sent. Its sender
	// waits for less.
	commandTTL = 15 * time.Second
	// replyTTL is how long the replies of a server are kept after the last one.
	replyTTL = time.Minute
	// maxCommands limits the commands that a server reads at once.
	maxCommands = 100
)

// SendCommand adds a command for the server with this ID and key, and wakes the server.
func (b *Broker) SendCommand(ctx context.Context, server, serverID, command string) error {
	key := wire.ServerCommands(server)
	_, err := b.Client().Pipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.RPush(ctx, key, command)
		pipe.Expire(ctx, key, commandTTL)
		return nil
	})
	if err == nil { // after the command: on a Cluster, a pipeline reaches the nodes in any order
		err = b.Client().Publish(ctx, b.Namespace().Cancel(), wire.ControlMessage(serverID)).Err()
	}
	if err != nil {
		return fmt.Errorf("rdb: sending a command to a server: %w", err)
	}
	return nil
}

// CommandReply returns the reply of a server to a command. It reports false if there is none yet.
func (b *Broker) CommandReply(ctx context.Context, server, id string) (text string, ok bool, err error) {
	found, err := b.Client().HMGet(ctx, wire.ServerReplies(server), id).Result()
	if err != nil {
		return "", false, fmt.Errorf("rdb: reading the reply of a server: %w", err)
	}
	if len(found) == 1 {
		text, ok = found[0].(string)
	}
	return text, ok, nil
}

// Commands returns the commands that a server has not confirmed, oldest first.
func (b *Broker) Commands(ctx context.Context, p wire.Process) ([]string, error) {
	all, err := b.Client().LRange(ctx, wire.ServerCommands(b.Namespace().Server(p)), 0, maxCommands-1).Result()
	if err != nil {
		return nil, fmt.Errorf("rdb: reading the commands to the server: %w", err)
	}
	return all, nil
}

// CommandResult is an executed command.
type CommandResult struct {
	Command string // as Commands returned it
	ID      string
	Reply   string // the text of its error, "" if there was none
}

// ConfirmCommands replies to commands, and removes them.
func (b *Broker) ConfirmCommands(ctx context.Context, p wire.Process, results ...CommandResult) error {
	server := b.Namespace().Server(p)
	_, err := b.Client().Pipelined(ctx, func(pipe redis.Pipeliner) error {
		replies := make([]any, 0, 2*len(results))
		for _, r := range results {
			replies = append(replies, r.ID, r.Reply)
		}
		pipe.HSet(ctx, wire.ServerReplies(server), replies...)
		pipe.Expire(ctx, wire.ServerReplies(server), replyTTL)
		for _, r := range results {
			pipe.LRem(ctx, wire.ServerCommands(server), 0, r.Command)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("rdb: confirming the commands to the server: %w", err)
	}
	return nil
}
