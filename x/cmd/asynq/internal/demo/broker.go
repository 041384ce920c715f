package demo

import (
	"fmt"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// Broker is a Redis embedded in this process. Close discards its data.
type Broker struct {
	mini *miniredis.Miniredis
	stop chan struct{}
	once sync.Once
	done sync.WaitGroup
}

// StartBroker starts a Broker on a free port of the loopback interface.
func StartBroker() (*Broker, error) {
	mini, err := miniredis.Run()
	if err != nil {
		return nil, fmt.Errorf("start the embedded Redis: %w", err)
	}
	b := &Broker{mini: mini, stop: make(chan struct{})}
	b.done.Go(b.age)
	return b, nil
}

// Addr returns the address as host:port.
func (b *Broker) Addr() string { return b.mini.Addr() }

// Close stops the broker. It may be called more than once.
func (b *Broker) Close() {
	b.once.Do(func() { close(b.stop) })
	b.done.Wait()
	b.mini.Close()
}

// age expires keys: miniredis does not advance times to live by itself.
func (b *Broker) age() {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			b.mini.FastForward(time.Second)
		case <-b.stop:
			return
		}
	}
}
