package asynqtest

import (
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/asynq-go/asynq"
)

// Broker is a Redis of a test's own, with a client and an inspector on it. Its methods may be called from several goroutines, except
// those that take a testing.TB: they end the test where they fail, and so belong to the goroutine that runs it.
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

// A RunOption changes how Run sets up a Broker.
type RunOption func(*Broker)

// At lets the clock start at a time of the test's choice, in place of the host's.
func At(now time.Time) RunOption {
	return func(b *Broker) { b.SetTime(now) }
}

// Run starts an empty Redis in this process, and a client and an inspector on it. All end with the test.
func Run(t testing.TB, opts ...RunOption) *Broker {
	t.Helper()
	b := &Broker{t: t, mini: miniredis.NewMiniRedis()}
	if err := b.mini.Start(); err != nil {
		t.Fatalf("asynqtest: starting miniredis: %v", err)
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
		_ = b.client.Close() // the server ends now, too
		_ = b.inspector.Close()
	})
	return b
}

// Client returns a client on the Broker, by its clock. It is closed when the test ends.
func (b *Broker) Client() *asynq.Client { return b.client }

// Inspector returns an inspector on the Broker. It is closed when the test ends.
func (b *Broker) Inspector() *asynq.Inspector { return b.inspector }

// RedisConnOpt returns what clients, inspectors and servers of the program connect with. Clients that do have the Broker's clock.
func (b *Broker) RedisConnOpt() asynq.RedisConnOpt {
	return connOpt{RedisClientOpt: asynq.RedisClientOpt{Addr: b.mini.Addr()}, clock: b.Now}
}

// Miniredis returns the Redis itself, to look into it, or to let it fail. Move its time with Advance and SetTime of the Broker only.
func (b *Broker) Miniredis() *miniredis.Miniredis { return b.mini }

// connOpt connects to the Broker. Clients ask it for the time.
type connOpt struct {
	asynq.RedisClientOpt
	clock func() time.Time
}

func (c connOpt) Now() time.Time { return c.clock() }
