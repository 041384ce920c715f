package loops

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/inspect"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/wire"
)

// Each poller is published as a server with its leases and its last poll, and withdrawn when it is
// gone.
func TestHeartbeaterPublishesPollers(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		const many = 250 // more than one pipeline
		ctx, b := context.Background(), r.Broker()
		polled := time.UnixMilli(1_700_000_000_123)
		present := make(map[int][]string) // the tasks of each
		for i := range many {
			present[i] = nil
		}
		p := &Heartbeater{Broker: b, Interval: 5 * time.Second, Snapshot: func() (all []Server) {
			for i, tasks := range present {
				one := Server{
					Process: wire.Process{Host: "host", PID: 7, ID: fmt.Sprint("id", i)},
					Info:    &wire.ServerInfo{Host: "host", ServerID: fmt.Sprint("id", i), Queues: map[string]int{"q": 1}},
				}
				if i > 0 { // the first one is the process itself
					one.Poller = &wire.Poller{Name: fmt.Sprint("worker ", i), LastPoll: polled}
				}
				for _, id := range tasks {
					one.Running = append(one.Running, &wire.WorkerInfo{ServerID: one.Info.ServerID, TaskID: id, Queue: "q", StartTime: polled})
				}
				all = append(all, one)
			}
			return all
		}}
		check := func() {
			t.Helper()
			mustTick(t, p.Tick, 5*time.Second)
			servers, workers, err := inspect.New(b).Servers(ctx)
			if err != nil || len(servers) != len(present) || len(p.Processes()) != len(present) {
				t.Fatalf("%d servers are listed and %d recorded, want %d: %v", len(servers), len(p.Processes()), len(present), err)
			}
			for _, s := range servers {
				var i int
				if _, err := fmt.Sscanf(s.ServerID, "id%d", &i); err != nil {
					t.Fatal(err)
				}
				want := wire.Poller{Name: fmt.Sprint("worker ", i), LastPoll: polled}
				if i == 0 {
					want = wire.Poller{}
				}
				if s.Poller.Name != want.Name || !s.Poller.LastPoll.Equal(want.LastPoll) || s.ActiveWorkerCount != len(present[i]) {
					t.Errorf("%s is listed as %+v with %d tasks, want %+v with %d", s.ServerID, s.Poller, s.ActiveWorkerCount, want, len(present[i]))
				}
				if got := workers[s.ServerID]; len(got) != len(present[i]) {
					t.Errorf("%s holds %d tasks, want %v", s.ServerID, len(got), present[i])
				}
			}
		}
		check()
		present[0], present[1], present[many-1] = []string{"a"}, []string{"b", "c"}, []string{"d"}
		check()
		present[1] = []string{"c"}
		delete(present, 2)
		delete(present, many-1)
		check()
		clear(present)
		check()
		if keys := r.Client().Keys(ctx, "*").Val(); len(keys) != 0 {
			t.Errorf("left in Redis: %q", keys)
		}
	})
}

// A failed publication or withdrawal is repeated with the next tick.
func TestHeartbeaterWithdrawsAgain(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		here := true
		p := &Heartbeater{Broker: b, Interval: time.Second, Snapshot: func() []Server {
			if !here {
				return nil
			}
			return []Server{{
				Process: wire.Process{ID: "id"}, Info: &wire.ServerInfo{ServerID: "id"}, Poller: &wire.Poller{Name: "w"},
				Running: []*wire.WorkerInfo{{ServerID: "id", TaskID: "t", Queue: "q", StartTime: time.Now()}},
			}}
		}}
		canceled, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := p.Tick(canceled); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		mustTick(t, p.Tick, time.Second)
		if servers, workers, err := inspect.New(b).Servers(ctx); err != nil || len(servers) != 1 || len(workers["id"]) != 1 {
			t.Errorf("listed: %+v, %v, %v", servers, workers, err)
		}
		here = false
		if _, err := p.Tick(canceled); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		mustTick(t, p.Tick, time.Second)
		if keys := r.Client().Keys(ctx, "*").Val(); len(keys) != 0 {
			t.Errorf("left in Redis: %q", keys)
		}
	})
}
