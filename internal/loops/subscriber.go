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
	Cancel func(message string) // which wire.ParseCancel reads

	listen       func(ctx context.Context) (subscription, error) // Broker's, but for tests
	subscription subscription
	keep         func() bool // calls off that the subscription ends with the loop
}

// subscription is what a subscriber needs of rdb.Subscription.
type subscription interface {
	Next(ctx context.Context) (string, error)
	Close()
}

// Tick waits for one task to cancel. Its ctx is the loop's, the same in all ticks: the subscription ends with it.
func (s *Subscriber) Tick(ctx context.Context) (time.Duration, error) {
	if s.subscription == nil {
		sub, err := s.subscribe(ctx)
		if err != nil {
			return 0, err
		}
		s.subscription = sub
		s.keep = context.AfterFunc(ctx, sub.Close)
	}
	message, err := s.subscription.Next(ctx)
	if err != nil {
		s.keep()
		s.subscription.Close()
		s.subscription = nil
		return 0, err
	}
	if message != "" {
		s.Cancel(message)
	}
	return 0, nil
}

func (s *Subscriber) subscribe(ctx context.Context) (subscription, error) {
	if s.listen != nil {
		return s.listen(ctx)
	}
	return s.Broker.SubscribeCancel(ctx)
}
