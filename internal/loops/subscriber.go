package loops

import (
	"context"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
)

// SubscribeBroker is what a subscriber needs of rdb.Broker.
type SubscribeBroker interface {
	SubscribeCancel(ctx context.Context) (*rdb.Subscription, error)
}

// Subscriber hears which tasks to cancel.
type Subscriber struct {
	Broker SubscribeBroker
	Cancel func(id string)

	subscription *rdb.Subscription
}

// Tick waits for one task to cancel.
func (s *Subscriber) Tick(ctx context.Context) (time.Duration, error) {
	if s.subscription == nil {
		sub, err := s.Broker.SubscribeCancel(ctx)
		if err != nil {
			return 0, err
		}
		s.subscription = sub
	}
	id, err := s.subscription.Next(ctx)
	if err != nil {
		s.subscription.Close()
		s.subscription = nil
		return 0, err
	}
	if id != "" {
		s.Cancel(id)
	}
	return 0, nil
}
