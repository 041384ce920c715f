package rdb_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
)

// announced returns a waiter for the queues q and r of a Cluster, which receives announcements
// until the test ends.
func announced(t *testing.T, b *rdb.Broker) rdb.Waiter {
	t.Helper()
	w, ok := newWaiter(t, b, "w").(*rdb.AnnouncedWaiter)
	if !ok {
		t.Fatal("the waiter blocks on the markers")
	}
	ctx, cancel := context.WithCancel(context.Background())
	s, err := w.Subscribe(ctx)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			message, err := s.Next(ctx)
			if err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			w.Announce(message)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return w
}

func clusterClient(t *testing.T) *redis.ClusterClient {
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{proctest.StartCluster(t).Addr()}})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestWaiterOnCluster(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := clusterClient(t)
	b := rdb.New(client, "")
	enqueue := func(queue, id string) {
		t.Helper()
		task := redistest.NewTask(t, queue, id)
		b.Enqueue(ctx, task)
		redistest.Must(t, client.Ping(ctx))
		if task.Err != nil {
			t.Fatal(task.Err)
		}
	}
	waits, other := announced(t, b), announced(t, rdb.New(client, ""))

	// A marker wakes one of two waiters.
	canceled, cancel := context.WithCancel(ctx)
	first, second := startWait(canceled, waits, "q", "r"), startWait(canceled, other, "q", "r")
	enqueue("q", "1")
	var left waiting
	select {
	case got := <-first.queue:
		left = second
		if got != "q" {
			t.Errorf("woken for %q", got)
		}
	case got := <-second.queue:
		left = first
		if got != "q" {
			t.Errorf("woken for %q", got)
		}
	}
	if n := client.Exists(ctx, b.Keys("q").Marker()).Val(); n != 0 {
		t.Error("the marker is still there")
	}
	cancel()
	left.end(t, "", context.Canceled)

	// An announcement without a wait is kept.
	enqueue("q", "2")
	enqueue("r", "3")
	startWait(ctx, other, "r").end(t, "r", nil)
	startWait(ctx, other, "q").end(t, "q", nil)
	if got, err := other.Wait(ctx, []string{"q", "r"}, 10*time.Millisecond); got != "" || err != nil {
		t.Errorf("after both: %q, error %v", got, err)
	}

	// Unblock ends a wait, or the next one.
	if err := waits.Unblock(ctx); err != nil {
		t.Error(err)
	}
	startWait(ctx, waits, "q").end(t, "", nil)

	// Several markers are taken with one call.
	enqueue("q", "4")
	enqueue("r", "5")
	got := map[string]bool{}
	for range 2 {
		queue, err := waits.Wait(ctx, []string{"q", "r"}, maxWait)
		if err != nil {
			t.Error(err)
		}
		got[queue] = true
	}
	if !got["q"] || !got["r"] {
		t.Errorf("woken for %v", got)
	}
}

// After a lost announcement, Waiting takes the marker, so that the next task is announced.
func TestLostAnnouncement(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := clusterClient(t)
	b := rdb.New(client, "")
	on := startWait(ctx, announced(t, b), "q")
	redistest.Must(t, client.LPush(ctx, b.Keys("q").Marker(), 1)) // as by a process of an older release
	b.Enqueue(ctx, redistest.NewTask(t, "q", "1"))
	if queues, err := b.Waiting(ctx, []string{"q"}); err != nil || len(queues) != 1 {
		t.Errorf("waiting: %q, error %v", queues, err)
	}
	b.Enqueue(ctx, redistest.NewTask(t, "q", "2"))
	on.end(t, "q", nil)
}
