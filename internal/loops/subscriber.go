package loops

import (
	"context"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
)

// SubscribeBroker is the part of rdb.Broker and rdb.AnnouncedWaiter that a Subscriber uses.
type SubscribeBroker interface {
	Subscribe(ctx context.Context) (*rdb.Subscription, error)
}

// Subscriber receives cancellations, or announcements of markers.
type Subscriber struct {
	Broker  SubscribeBroker
	Receive func(message string)

	subscribeFunc func(ctx context.Context) (subscription, error) // replaces Broker in tests
	subscription  subscription
	cancelClose   func() bool // keeps the subscription open when the loop ends
}

// subscription is the part of rdb.Subscription that a Subscriber uses.
type subscription interface {
	Next(ctx context.Context) (string, error)
	Close()
}

// Tick waits for one message. ctx must be the context of the loop, the same in all ticks: the
// subscription is closed when it ends.
func (s *Subscriber) Tick(ctx context.Context) (time.Duration, error) {
	if s.subscription == nil {
		sub, err := s.subscribe(ctx)
		if err != nil {
			return 0, err
		}
		s.subscription = sub
		s.cancelClose = context.AfterFunc(ctx, sub.Close)
	}
	message, err := s.subscription.Next(ctx)
	if err != nil {
		s.cancelClose()
		s.subscription.Close()
		s.subscription = nil
		return 0, err
	}
	if message != "" {
		s.Receive(message)
	}
	return 0, nil
}

func (s *Subscriber) subscribe(ctx context.Context) (subscription, error) {
	if s.subscribeFunc != nil {
		return s.subscribeFunc(ctx)
	}
	return s.Broker.Subscribe(ctx)
}
