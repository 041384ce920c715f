package asynq_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/rdb"
)

// Every kind has the same text inside and outside.
func TestFindingKinds(t *testing.T) {
	kinds := map[asynq.FindingKind]rdb.FindingKind{
		asynq.FindingActiveWithoutLease: rdb.ActiveWithoutLease, asynq.FindingLeaseWithoutActive: rdb.LeaseWithoutActive,
		asynq.FindingOrphanTask: rdb.OrphanTask, asynq.FindingOrphanLock: rdb.OrphanLock, asynq.FindingDanglingID: rdb.DanglingID,
		asynq.FindingInTwoCollections: rdb.InTwoCollections, asynq.FindingInvalidState: rdb.InvalidState,
		asynq.FindingUnreadableMessage: rdb.UnreadableMessage, asynq.FindingMissingGroupName: rdb.MissingGroupName,
		asynq.FindingEmptyGroupName: rdb.EmptyGroupName, asynq.FindingMissingAggregationSet: rdb.MissingAggregationSet,
		asynq.FindingStaleAggregationSet: rdb.StaleAggregationSet, asynq.FindingUnregisteredQueue: rdb.UnregisteredQueue,
		asynq.FindingWrongType: rdb.WrongType,
	}
	for public, internal := range kinds {
		if string(public) != string(internal) {
			t.Errorf("%q is %q inside", public, internal)
		}
	}
}

// A server and a client are at work while doctors look and mend; nothing is broken, so they find nothing, and every task runs.
func TestDiagnoseFindsNothingWhileServersWork(t *testing.T) {
	everywhere(t, func(s *site) {
		var ran atomic.Int64
		const n = 400
		all := make(chan struct{})
		s.serve(asynq.Config{Concurrency: 20, RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return 0 }},
			func(ctx context.Context, task *asynq.Task) error {
				if retried, _ := asynq.GetRetryCount(ctx); retried == 0 && task.Payload()[0]%7 == 3 {
					return asynq.RetryAfter(0)
				}
				if ran.Add(1) == n {
					close(all)
				}
				return nil
			})
		inspector := asynq.NewInspectorFromRedisClient(s.redis)
		made := make(chan struct{})
		go func() {
			defer close(made)
			for i := range n {
				opts := []asynq.Option{asynq.TaskID(fmt.Sprint("t", i))}
				switch i % 4 {
				case 1:
					opts = append(opts, asynq.Unique(time.Minute))
				case 2:
					opts = append(opts, asynq.Retention(time.Minute))
				case 3:
					opts = append(opts, asynq.ProcessIn(time.Second))
				}
				if _, err := s.client.Enqueue(asynq.NewTask("work", []byte{byte(i), byte(i >> 8)}), opts...); err != nil {
					s.t.Errorf("enqueue: %v", err)
				}
			}
		}()
		diagnoses := 0
		for over := false; !over; diagnoses++ {
			select {
			case <-all:
				over = true
			default:
			}
			for f, err := range inspector.Diagnose(context.Background(), asynq.DiagnoseOptions{Repair: diagnoses%2 == 1}) {
				s.t.Errorf("found %v, error %v", f, err)
			}
		}
		<-made
		if diagnoses < 2 {
			s.t.Errorf("only %d diagnoses", diagnoses)
		}
	})
}

// What no server would ever have run is run after the diagnosis.
func TestDiagnoseRepairs(t *testing.T) {
	everywhere(t, func(s *site) {
		ctx := context.Background()
		s.enqueue("lost")
		s.enqueue("late", asynq.ProcessIn(time.Hour))
		s.enqueue("locked", asynq.Unique(time.Hour))
		s.redis.Del(ctx, s.queue.Pending(), s.queue.Scheduled(), "asynq:queues")
		s.redis.RPush(ctx, s.queue.Pending(), "nobody")
		s.redis.Set(ctx, s.queue.Unique("other", nil), "nobody", 0)

		inspector := asynq.NewInspectorFromRedisClient(s.redis)
		var kinds []string
		for f, err := range inspector.Diagnose(ctx, asynq.DiagnoseOptions{Repair: true}) {
			if err != nil {
				s.t.Fatal(err)
			}
			if !f.Repaired || f.Queue != "default" {
				s.t.Errorf("%v: repaired %v", f, f.Repaired)
			}
			kinds = append(kinds, string(f.Kind)+" "+f.TaskID)
		}
		slices.Sort(kinds)
		want := []string{"dangling-id nobody", "orphan-lock nobody", "orphan-task late", "orphan-task locked", "orphan-task lost", "unregistered-queue "}
		if !slices.Equal(kinds, want) {
			s.t.Errorf("found %q, want %q", kinds, want)
		}
		ran := make(chan string, 10)
		s.serve(asynq.Config{Concurrency: 3}, func(_ context.Context, task *asynq.Task) error {
			ran <- task.ResultWriter().TaskID()
			return nil
		})
		for range 3 {
			select {
			case <-ran:
			case <-time.After(patience):
				s.t.Fatal("a mended task does not run")
			}
		}
	})
}

func TestDiagnoseRefusesQueueNames(t *testing.T) {
	t.Parallel()
	inspector := asynq.NewInspector(asynq.RedisClientOpt{Addr: "127.0.0.1:1"})
	defer inspector.Close()
	errs := 0
	for f, err := range inspector.Diagnose(context.Background(), asynq.DiagnoseOptions{Queues: []string{" "}}) {
		if f != nil || err == nil {
			t.Errorf("found %v, error %v", f, err)
		}
		errs++
	}
	if errs != 1 {
		t.Errorf("%d errors", errs)
	}
}
