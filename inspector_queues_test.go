package asynq_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/wire"
)

func TestInspectorQueueInfos(t *testing.T) {
	everywhere(t, func(s *site) {
		s.AllowViolations()
		ctx, i := context.Background(), s.inspector()
		s.enqueueMany(2)
		s.enqueue("b1", asynq.Queue("b"))
		s.enqueue("broken1", asynq.Queue("broken"))
		broken := wire.DefaultNamespace.Queue("broken")
		s.redis.Set(ctx, broken.Archived(), "no set", 0)
		got, err := i.QueueInfos(ctx)
		if err != nil || len(got) != 3 || got[0].Queue != "b" || got[1].Queue != "broken" || got[2].Queue != "default" {
			s.t.Fatalf("%+v, error %v", got, err)
		}
		if got[1].Err == nil || got[1].Info != nil {
			s.t.Errorf("of the broken queue: %+v", got[1])
		}
		want, err := i.GetQueueInfo("default")
		if err != nil {
			s.t.Fatal(err)
		}
		for _, info := range []*asynq.QueueInfo{want, got[2].Info} {
			info.Timestamp, info.Latency = time.Time{}, 0
		}
		if diff := cmp.Diff(want, got[2].Info); diff != "" || got[2].Err != nil || got[2].Took <= 0 {
			s.t.Errorf("not what GetQueueInfo tells (-want +got):\n%s, error %v, took %v", diff, got[2].Err, got[2].Took)
		}
		got, err = i.QueueInfos(ctx, "none", "b")
		if err != nil || len(got) != 2 || !errors.Is(got[0].Err, asynq.ErrQueueNotFound) || got[1].Info.Pending != 1 {
			s.t.Errorf("%+v, error %v", got, err)
		}
	})
}

// What should have happened already shows in the state of a queue that no server looks after.
func TestInspectorQueueInfoOverdue(t *testing.T) {
	everywhere(t, func(s *site) {
		s.AllowViolations()
		ctx, i := context.Background(), s.inspector()
		s.enqueue("t")
		if info, err := i.GetQueueInfo("default"); err != nil || info.RetryOverdue+info.ScheduledOverdue+info.LeaseOverdue != 0 {
			s.t.Errorf("overdue without reason: %+v, error %v", info, err)
		}
		now := info(s, i).Timestamp
		for key, ago := range map[string]time.Duration{
			s.queue.Scheduled(): time.Minute, s.queue.Retry(): time.Hour, s.queue.Lease(): 2 * time.Hour,
		} {
			s.redis.ZAdd(ctx, key,
				redis.Z{Score: float64(now.Add(-ago).Unix()), Member: "a"}, redis.Z{Score: float64(now.Add(ago).Unix()), Member: "b"})
		}
		after := info(s, i)
		for name, d := range map[string][2]time.Duration{
			"scheduled": {after.ScheduledOverdue, time.Minute},
			"retry":     {after.RetryOverdue, time.Hour},
			"lease":     {after.LeaseOverdue, 2 * time.Hour},
		} {
			if off := d[0] - d[1]; off < 0 || off > 30*time.Second {
				s.t.Errorf("%s: overdue for %v, not %v", name, d[0], d[1])
			}
		}
	})
}

func info(s *site, i *asynq.Inspector) *asynq.QueueInfo {
	s.t.Helper()
	info, err := i.GetQueueInfo("default")
	if err != nil {
		s.t.Fatal(err)
	}
	return info
}

// A silent Redis does not hold QueueInfos up for longer than its ctx says.
func TestInspectorQueueInfosWithASilentRedis(t *testing.T) {
	everywhere(t, func(s *site) {
		s.enqueue("t")
		proxy, opt := s.proxy()
		i := asynq.NewInspector(opt)
		s.t.Cleanup(func() { _ = i.Close() })
		if _, err := i.Queues(); err != nil {
			s.t.Fatal(err)
		}
		silent := func(arrange func()) ([]asynq.QueueInfoResult, error) {
			arrange()
			ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
			defer cancel()
			defer proxy.Resume()
			began := time.Now()
			got, err := i.QueueInfos(ctx)
			if took := time.Since(began); took > 3*time.Second {
				s.t.Errorf("it took %v", took)
			}
			return got, err
		}
		if _, err := silent(proxy.Blackhole); !errors.Is(err, context.DeadlineExceeded) {
			s.t.Errorf("with no answer at all: error %v", err)
		}
		got, err := silent(func() { proxy.Answer(1, "", "evalsha") }) // nothing is an answer that never comes
		if err != nil || len(got) != 1 || !errors.Is(got[0].Err, context.DeadlineExceeded) || got[0].Took <= 0 {
			s.t.Errorf("with no answer for the queue: %+v, error %v", got, err)
		}
	})
}
