package guide

import (
	"bytes"
	"context"
	"time"

	"github.com/asynq-go/asynq"
)

// Notify adds an event to the next digest of a user.
func Notify(ctx context.Context, client *asynq.Client, user, event string) error {
	_, err := client.EnqueueContext(ctx, asynq.NewTask("event", []byte(event)), asynq.Group("digest:"+user))
	return err
}

// Digest makes one task of the events of a group.
func Digest(group string, events []*asynq.Task) *asynq.Task {
	lines := make([][]byte, len(events))
	for i, event := range events {
		lines[i] = event.Payload()
	}
	return asynq.NewTask("email:digest", bytes.Join(lines, []byte("\n")))
}

// NewDigestServer returns a server that aggregates groups.
func NewDigestServer(redis asynq.RedisConnOpt) *asynq.Server {
	return asynq.NewServer(redis, asynq.Config{
		GroupAggregator:  asynq.GroupAggregatorFunc(Digest),
		GroupGracePeriod: time.Minute,      // after the newest event,
		GroupMaxDelay:    10 * time.Minute, // but no later than this after the oldest,
		GroupMaxSize:     100,              // or as soon as the group has so many
	})
}
