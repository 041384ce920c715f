package waits

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
)

// cluster is a Broker on which each queue has its own lane, and all reports are lost.
type cluster struct {
	Broker

	mu            sync.Mutex
	blocking, max int
	ended         map[string]bool // queues
	end           chan struct{}   // ends blocked calls
}

func (*cluster) ID() string                                 { return "client" }
func (*cluster) Lane(queue string) string                   { return queue }
func (*cluster) EndReplies(context.Context, string, string) {}

func (c *cluster) Replies(_ context.Context, _ string, _ []string, timeout time.Duration, _ func(rdb.Reply)) error {
	c.mu.Lock()
	c.blocking++
	c.max = max(c.max, c.blocking)
	c.mu.Unlock()
	select {
	case <-time.After(timeout):
	case <-c.end:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.blocking--
	return nil
}

func (c *cluster) States(_ context.Context, queue string, ids []string) ([]wire.State, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	states := make([]wire.State, len(ids))
	for i := range states {
		if states[i] = wire.StatePending; c.ended[queue] {
			states[i] = wire.StateArchived
		}
	}
	return states, nil
}

// However many lanes have awaited tasks, few of them hold a connection, and all waits end.
func TestFewLanesBlock(t *testing.T) {
	t.Parallel()
	c := &cluster{ended: make(map[string]bool), end: make(chan struct{})}
	defer close(c.end)
	w := &Waits{Broker: c}
	const lanes = 20
	var all []*Wait
	for i := range lanes {
		wait := w.Begin(fmt.Sprint("q", i), "x")
		wait.Created()
		all = append(all, wait)
	}
	for i, wait := range all {
		c.mu.Lock()
		c.ended[fmt.Sprint("q", i)] = true
		c.mu.Unlock()
		if i == 0 {
			continue // the others must not depend on it
		}
		select {
		case r := <-wait.End:
			if r.Outcome != rdb.ReplyFailed {
				t.Errorf("wait %d ends with %+v", i, r)
			}
		case <-time.After(time.Minute):
			t.Fatalf("wait %d does not end", i)
		}
	}
	for _, wait := range all {
		wait.Stop()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.max != maxBlocking {
		t.Errorf("%d lanes blocked at a time, want %d", c.max, maxBlocking)
	}
}
