package rdb

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/wire"
)

// archiveLimitsTTL is how long published limits of an archive are valid. Servers renew them every
// hour; it is long, because an Inspector must honor them also while all servers are stopped.
const archiveLimitsTTL = 30 * 24 * time.Hour

// PublishArchiveLimits publishes the limits of the archives of queues for Inspectors. For default
// limits it deletes what others have published.
func (b *Broker) PublishArchiveLimits(ctx context.Context, queues []string) error {
	_, err := b.Client().Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, queue := range queues {
			key := b.Queue(queue).Keys.ArchiveLimits()
			if limits := b.ArchiveLimits(queue); limits == wire.DefaultArchiveLimits {
				pipe.Del(ctx, key)
			} else {
				pipe.Set(ctx, key, limits.Encode(), archiveLimitsTTL)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("rdb: publishing the limits of archives: %w", err)
	}
	return nil
}
