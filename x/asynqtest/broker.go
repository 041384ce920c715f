package asynqtest

import (
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/asynq-go/asynq"
)

// Broker is a Redis for one test, with a client and an inspector. Its methods are safe for
// concurrent use, except those with a testing.TB parameter: they may end the test, so only the
// goroutine of the test may call them.
type Broker struct {
	t         testing.TB
	mini      *miniredis.Miniredis
	client    *asynq.Client
	inspector *asynq.Inspector
	draining  sync.Mutex

	mu    sync.Mutex // guards the clock
	now   time.Time
	moved bool
}

// A RunOption configures Run.
type RunOption func(*Broker)

// At starts the clock at the given time instead of the host's.
func At(now time.Time) RunOption {
	return func(b *Broker) { b.SetTime(now) }
}

// Run starts an empty Redis in this process, with a client and an inspector. All of them end with
// the test.
func Run(t testing.TB, opts ...RunOption) *Broker {
	t.Helper()
	b := &Broker{t: t, mini: miniredis.NewMiniRedis()}
	if err := b.mini.Start(); err != nil {
		t.Fatalf("asynqtest: start miniredis: %v", err)
	}
	t.Cleanup(b.mini.Close)
	b.mini.ClockTTL(true)
	b.set(ceilSecond(time.Now()))
	for _, opt := range opts {
		opt(b)
	}
	b.client = asynq.NewClient(b.RedisConnOpt())
	b.inspector = asynq.NewInspector(b.RedisConnOpt())
	t.Cleanup(func() {
		_ = b.client.Close() // the server also ends now
		_ = b.inspector.Close()
	})
	return b
}

// Client returns a client of the Broker that uses its clock. It is closed when the test ends.
func (b *Broker) Client() *asynq.Client { return b.client }

// Inspector returns an inspector of the Broker. It is closed when the test ends.
func (b *Broker) Inspector() *asynq.Inspector { return b.inspector }

// RedisConnOpt returns the connection option for clients, inspectors and servers of the program.
// Clients that use it have the Broker's clock.
func (b *Broker) RedisConnOpt() asynq.RedisConnOpt {
	return asynq.WithClock(asynq.RedisClientOpt{Addr: b.mini.Addr()}, b.Now)
}

// Miniredis returns the Redis server itself, to inspect it or to make it fail. Change its time only
// with Advance and SetTime of the Broker.
func (b *Broker) Miniredis() *miniredis.Miniredis { return b.mini }
