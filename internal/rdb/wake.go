package rdb

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/script"
)

// AnnouncedWaiter waits for the markers of several queues of a Cluster. BLPOP accepts only keys of
// one slot, so it would need a connection for each. Instead, the script that sets a marker
// publishes its key, and every server with a waiter for the queue receives the message. The first
// waiter that deletes the marker is woken.
//
// The messages come from the primary of the lane, so other primaries do not matter to it. Its
// caller calls Subscribe, and passes each message to Announce. A message can be lost with a
// connection. Polling then finds the task, and Waiting deletes the marker so that the next task is
// announced.
type AnnouncedWaiter struct {
	broker *Broker
	queues map[string]string // by marker
	wake   chan struct{}     // announced or unblocked has changed

	// Cancel, if not nil, receives cancellations, as those of Broker.Subscribe. They need no
	// connection of their own then.
	Cancel func(message string)

	mu        sync.Mutex
	announced map[string]struct{} // queues whose marker may be set
	unblocked bool

	taken []string // queues whose markers Wait has taken and not returned yet
}

func (b *Broker) newAnnouncedWaiter(lane []string) *AnnouncedWaiter {
	w := &AnnouncedWaiter{
		broker: b, queues: make(map[string]string, len(lane)), wake: make(chan struct{}, 1), announced: make(map[string]struct{}),
	}
	for _, queue := range lane {
		w.queues[b.Keys(queue).Marker()] = queue
	}
	return w
}

// maxSilence is the time after which a subscription without messages is checked. While messages are
// lost, tasks are only found by polling.
const maxSilence = 2 * time.Second

// Subscribe subscribes to the announcements of the Cluster, and to cancellations if Cancel is set.
// Each marker may have been set before.
func (w *AnnouncedWaiter) Subscribe(ctx context.Context) (*Subscription, error) {
	queues := slices.Collect(maps.Values(w.queues))
	node, err := w.broker.node(ctx, w.broker.Keys(queues[0]).Marker())
	if err != nil {
		return nil, err
	}
	channels := []string{w.broker.Namespace().Wake()}
	if w.Cancel != nil {
		channels = append(channels, w.broker.Namespace().Cancel())
	}
	s := &Subscription{pubsub: node.Subscribe(ctx, channels...), maxWait: maxSilence, channel: channels[0], other: w.Cancel}
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	w.announce(queues...)
	return s, nil
}

// Announce passes on that a marker was set. Those of other lanes are ignored.
func (w *AnnouncedWaiter) Announce(marker string) {
	if queue, ok := w.queues[marker]; ok {
		w.announce(queue)
	}
}

func (w *AnnouncedWaiter) announce(queues ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, queue := range queues {
		w.announced[queue] = struct{}{}
	}
	w.signal()
}

func (w *AnnouncedWaiter) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Wait takes announced markers until one of them was still set. Announcements for other queues are
// kept: the waiter may wait for them later.
func (w *AnnouncedWaiter) Wait(ctx context.Context, queues []string, timeout time.Duration) (string, error) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		if n := len(w.taken); n > 0 {
			queue := w.taken[n-1]
			w.taken = w.taken[:n-1]
			return queue, nil
		}
		announced, unblocked := w.next(queues)
		if unblocked {
			return "", nil
		}
		if len(announced) > 0 {
			var err error
			if w.taken, err = w.broker.takeMarkers(ctx, announced); err != nil {
				w.announce(announced...) // some may still be set
				return "", err
			}
			continue
		}
		select {
		case <-w.wake:
		case <-timer.C:
			return "", nil
		case <-ctx.Done():
		}
	}
}

// next returns those of the queues that were announced, and forgets their announcements. It also
// returns whether the waiter was unblocked.
func (w *AnnouncedWaiter) next(queues []string) (announced []string, unblocked bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if unblocked, w.unblocked = w.unblocked, false; unblocked || len(w.announced) == 0 {
		return nil, unblocked
	}
	for _, queue := range queues {
		if _, ok := w.announced[queue]; ok {
			delete(w.announced, queue)
			if announced = append(announced, queue); len(announced) == script.MaxBatch {
				break
			}
		}
	}
	return announced, false
}

// takeMarkers deletes the markers of queues, and returns the queues whose markers were set.
func (b *Broker) takeMarkers(ctx context.Context, queues []string) ([]string, error) {
	cmds := make([]*redis.IntCmd, len(queues))
	_, err := b.Client().Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, queue := range queues {
			cmds[i] = pipe.Del(ctx, b.Keys(queue).Marker())
		}
		return nil
	})
	var taken []string
	for i, cmd := range cmds {
		if cmd.Val() > 0 {
			taken = append(taken, queues[i])
		}
	}
	if err != nil && len(taken) == 0 {
		return nil, fmt.Errorf("rdb: taking markers: %w", err)
	}
	return taken, nil
}

// Unblock ends a running Wait, or the next one.
func (w *AnnouncedWaiter) Unblock(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unblocked = true
	w.signal()
	return nil
}

// Close does nothing: the caller of Subscribe closes the subscription.
func (w *AnnouncedWaiter) Close() {}
