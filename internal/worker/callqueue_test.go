package worker

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestCallQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q CallQueue
		var order []int
		gate := make(chan struct{})
		add := func(i int) {
			q.Add(func() {
				<-gate
				q.mu.Lock()
				order = append(order, i)
				q.mu.Unlock()
				runtime.Goexit()
			})
		}
		for i := range maxWaitingCalls {
			q.Room(t.Context())
			add(i)
		}
		roomy := false
		go func() {
			q.Room(t.Context())
			roomy = true
		}()
		synctest.Wait()
		if roomy || q.running != maxCalls {
			t.Fatalf("room %v, %d calls run, want %d", roomy, q.running, maxCalls)
		}
		late, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if q.Room(late); late.Err() == nil {
			t.Error("there is room for more calls than allowed")
		}
		gate <- struct{}{}
		synctest.Wait()
		if !roomy || q.running != maxCalls {
			t.Errorf("after one call: room %v, %d calls run", roomy, q.running)
		}
		late, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := q.Drain(late); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("drained: %v", err)
		}
		add(maxWaitingCalls)
		unblocked := false
		go func() {
			q.Room(t.Context())
			unblocked = true
		}()
		synctest.Wait()
		if unblocked {
			t.Error("there is room")
		}
		q.Unblock()
		synctest.Wait()
		if !unblocked {
			t.Error("Room still blocks")
		}
		q.Room(t.Context()) // does not block any more
		for len(order) <= maxWaitingCalls {
			gate <- struct{}{}
			synctest.Wait()
		}
		if err := q.Drain(t.Context()); err != nil || q.Drop() != 0 {
			t.Errorf("drained: %v", err)
		}
		if slices.Sort(order); order[0] != 0 || order[len(order)-1] != maxWaitingCalls {
			t.Errorf("ran %v", order)
		}
	})
}

func TestCallQueueDrops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q CallQueue
		gate, ran := make(chan struct{}), 0
		for range maxCalls + 5 {
			q.Add(func() {
				<-gate
				q.mu.Lock()
				ran++
				q.mu.Unlock()
			})
		}
		if n := q.Drop(); n != maxCalls+5 {
			t.Errorf("%d calls were unfinished", n)
		}
		close(gate)
		synctest.Wait()
		if ran != maxCalls || q.Drop() != 0 {
			t.Errorf("%d calls ran, want %d", ran, maxCalls)
		}
	})
}
