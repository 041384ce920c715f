package rdb

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/asynq-go/asynq/internal/script"
)

// EntryPauses returns when the paused ones among scheduler entries were paused, by their pause IDs.
func (b *Broker) EntryPauses(ctx context.Context, pauseIDs ...string) (map[string]time.Time, error) {
	paused := make(map[string]time.Time)
	for ids := range slices.Chunk(pauseIDs, script.MaxBatch) {
		values, err := b.Client().HMGet(ctx, b.Namespace().SchedulerPauses(), ids...).Result()
		if err != nil {
			return nil, fmt.Errorf("rdb: reading the paused scheduler entries: %w", err)
		}
		for i, v := range values {
			if text, ok := v.(string); ok {
				seconds, _ := strconv.ParseInt(text, 10, 64) // whatever it is, the entry is paused
				paused[ids[i]] = time.Unix(seconds, 0)
			}
		}
	}
	return paused, nil
}

// PauseEntry pauses a scheduler entry. If it is paused already, the start of the pause stays.
func (b *Broker) PauseEntry(ctx context.Context, pauseID string) error {
	if err := b.Client().HSetNX(ctx, b.Namespace().SchedulerPauses(), pauseID, time.Now().Unix()).Err(); err != nil {
		return fmt.Errorf("rdb: pausing a scheduler entry: %w", err)
	}
	return nil
}

// ResumeEntry ends the pause of a scheduler entry. It reports whether there was one.
func (b *Broker) ResumeEntry(ctx context.Context, pauseID string) (bool, error) {
	n, err := b.Client().HDel(ctx, b.Namespace().SchedulerPauses(), pauseID).Result()
	if err != nil {
		return false, fmt.Errorf("rdb: resuming a scheduler entry: %w", err)
	}
	return n > 0, nil
}
