package poll

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynq-go/asynq"
)

func sortResults(results []asynq.QueueInfoResult) {
	slices.SortFunc(results, func(a, b asynq.QueueInfoResult) int { return strings.Compare(a.Queue, b.Queue) })
}

func TestPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		p := newPoller(t, Config{Source: f})
		synctest.Wait()
		wantEqual(t, "polls at the start", f.count(), 1)
		time.Sleep(30*time.Second + time.Millisecond) // of the bubble's clock
		wantEqual(t, "polls within 30 s, with no subscriber", f.count(), 4)

		ctx, cancel := context.WithCancel(t.Context())
		time.Sleep(5 * time.Second)
		ch := p.Subscribe(ctx)
		time.Sleep(time.Millisecond)
		wantEqual(t, "polls when a subscriber arrives after 5 s", f.count(), 5)
		time.Sleep(20 * time.Second)
		<-ch
		wantEqual(t, "polls within 20 s more", f.count(), 15)
		cancel()
		synctest.Wait()
		if s, ok := <-ch; ok {
			t.Errorf("a subscription that has ended told of snapshot %d", s.Seq)
		}
		time.Sleep(42 * time.Second) // the first one is due after 2 s
		wantEqual(t, "polls within 42 s, with no subscriber again", f.count(), 20)
	})
}

func TestWake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		p := newPoller(t, Config{Source: f})
		synctest.Wait()
		time.Sleep(time.Second)
		for range 100 {
			p.Wake()
		}
		synctest.Wait()
		wantEqual(t, "polls after 100 calls", f.count(), 2)
		for range 50 {
			p.Wake()
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
		}
		if n := f.count(); n < 4 || n > 5 {
			t.Errorf("50 calls within 500 ms made %d polls, want 2 or 3", n-2)
		}
	})
}

// A poll in flight when Wake is called may have missed the change, so another one follows.
func TestWakeDuringPoll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		hang := make(chan struct{})
		f.hang = hang
		p := newPoller(t, Config{Source: f})
		synctest.Wait()
		p.Wake()
		f.set(func(f *fakeSource) { f.hang = nil })
		close(hang)
		time.Sleep(wakeGap + time.Millisecond)
		wantEqual(t, "polls", f.count(), 2)
	})
}

func TestFresh(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		p := newPoller(t, Config{Source: f})
		s, err := p.Fresh(t.Context(), time.Time{})
		if err != nil || s.Seq != 1 {
			t.Fatalf("the first snapshot: %v, %v", s, err)
		}
		time.Sleep(time.Second)
		f.set(func(f *fakeSource) { f.queues["low"] = asynq.QueueInfo{Paused: true} })
		s, err = p.Fresh(t.Context(), time.Now())
		if err != nil || len(s.Queues) != 1 || !s.Queues[0].Info.Paused {
			t.Errorf("after a change: %+v, %v", s, err)
		}
		if again, err := p.Fresh(t.Context(), s.At); err != nil || again != s {
			t.Errorf("it pollTimes again though there is a snapshot: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if got, err := p.Fresh(ctx, time.Now().Add(time.Hour)); !errors.Is(err, context.Canceled) || got != s {
			t.Errorf("with an ended context: %v, %v", got, err)
		}
		p.Close()
		if got, err := p.Fresh(t.Context(), time.Now().Add(time.Hour)); !errors.Is(err, ErrClosed) || got == nil {
			t.Errorf("of a closed poller: %v, %v", got, err)
		}
	})
}

func TestSubscribersSkip(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPoller(t, Config{Source: newFake()})
		synctest.Wait()
		slow, quick := p.Subscribe(t.Context()), p.Subscribe(t.Context())
		for want := uint64(1); want < 10; want++ {
			if s := <-quick; s.Seq != want {
				t.Fatalf("the quick one got snapshot %d, want %d", s.Seq, want)
			}
		}
		if s := <-slow; s.Seq != 9 {
			t.Errorf("the slow one got snapshot %d, want the latest, 9", s.Seq)
		}
	})
}

func TestPartsFailAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.queues["low"] = asynq.QueueInfo{Pending: 3}
		f.servers = []*asynq.ServerInfo{{ID: "s", Status: "active", Queues: map[string]int{"low": 1}, Concurrency: 2}}
		f.entries = []*asynq.SchedulerEntry{{ID: "e"}}
		f.info = "# Server\r\nredis_version:7.4.1\r\n# Memory\r\nused_memory:1048576\r\n"
		p := newPoller(t, Config{Source: f})
		ch := p.Subscribe(t.Context())
		first := <-ch
		if first.Err != nil || first.Problems != (Problems{}) || len(first.Servers) != 1 || first.Redis.Version != "7.4.1" || first.Redis.Keys != 7 {
			t.Fatalf("the first snapshot: %+v", first)
		}
		for _, part := range []string{"queues", "servers", "entries", "redis", "memory"} {
			f.set(func(f *fakeSource) { f.parts = map[string]error{part: errDown} })
			s := <-ch
			told := map[string]error{"queues": s.Problems.Queues, "servers": s.Problems.Servers, "entries": s.Problems.Entries, "redis": s.Problems.Redis}
			for name, err := range told {
				if (name == part) != errors.Is(err, errDown) {
					t.Errorf("%s failed, and the error of %s is %v", part, name, err)
				}
			}
			if s.Err != nil || len(s.Queues) != 1 || len(s.Servers) != 1 || len(s.Entries) != 1 || s.Redis.Memory != 1<<20 {
				t.Errorf("%s failed, and the snapshot is %+v", part, s)
			}
		}
		f.set(func(f *fakeSource) { f.parts, f.broken = nil, map[string]error{"low": errDown} })
		s := <-ch
		if q, _ := s.Queue("low"); s.Problems != (Problems{}) || q.Info != nil || !errors.Is(q.Err, errDown) || s.Total.Broken != 1 {
			t.Errorf("one queue failed, and the snapshot is %+v", s)
		}
		again := <-ch
		for _, s := range []*Snapshot{s, again} {
			if q, _ := s.Queue("low"); q.Last == nil || q.Last.Pending != 3 || !q.Last.Timestamp.Before(s.At) {
				t.Errorf("the last known state of the queue is %+v", q.Last)
			}
		}
		f.set(func(f *fakeSource) { f.broken, f.panics = nil, true })
		if s := <-ch; s.Err != nil || s.Problems.Queues == nil || !strings.Contains(s.Problems.Queues.Error(), "a bug") {
			t.Errorf("a panic made the snapshot %+v", s)
		}
	})
}

func TestRedisGoesAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.queues["low"] = asynq.QueueInfo{Pending: 3}
		var text bytes.Buffer
		p := newPoller(t, Config{Source: f, Logger: slog.New(slog.NewTextHandler(&text, nil))})
		synctest.Wait()
		f.set(func(f *fakeSource) { f.down, f.pollTimes = errDown, nil })
		p.Wake()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		s := p.Latest()
		if age := s.At.Sub(s.DataAt); age < 5*time.Second || age > 20*time.Second {
			t.Errorf("the data of a failed poll are %v old", age)
		}
		if !errors.Is(s.Err, errDown) || len(s.Queues) != 1 || s.Queues[0].Info.Pending != 3 || s.Total.Pending != 3 {
			t.Errorf("while Redis is away: %+v", s)
		}
		wantEqual(t, "verdicts", kinds(s), []string{"trouble redis-unreachable"})
		f.set(func(f *fakeSource) {
			var gaps []time.Duration
			for n := range f.pollTimes[1:] {
				gaps = append(gaps, f.pollTimes[n+1].Sub(f.pollTimes[n]))
			}
			wantEqual(t, "time between polls", gaps[:3], []time.Duration{time.Second, 2 * time.Second, 2 * time.Second})
			f.down = nil
		})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if s := p.Latest(); s.Err != nil {
			t.Errorf("2 s after Redis came back: %v", s.Err)
		}
		p.Close()
		if n := strings.Count(text.String(), "level=WARN"); n != 1 || strings.Count(text.String(), "level=INFO") != 1 {
			t.Errorf("logged %d warnings, want 1 and that it is over:\n%s", n, &text)
		}
	})
}

// A Redis that does not respond costs at most the timeout, and is not called again while a call is
// in flight.
func TestSilentRedis(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.queues["low"] = asynq.QueueInfo{}
		p := newPoller(t, Config{Source: f})
		synctest.Wait()
		hang := make(chan struct{})
		f.set(func(f *fakeSource) { f.hang, f.ignoring = hang, true })
		ch := p.Subscribe(t.Context())
		<-ch
		began := time.Now()
		p.Wake()
		s := <-ch
		if took := time.Since(began); took > pollTimeout+wakeGap || s.Problems.Queues == nil || s.Took != pollTimeout {
			t.Errorf("after %v: %+v", took, s)
		}
		asked := f.count()
		for range 3 {
			if s := <-ch; !errors.Is(s.Problems.Queues, context.DeadlineExceeded) {
				t.Errorf("the next poll: %v", s.Problems.Queues)
			}
		}
		wantEqual(t, "calls while one is on its way", f.count(), asked)
		f.set(func(f *fakeSource) { f.hang = nil })
		close(hang)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if s := <-ch; s.Problems.Queues != nil {
			t.Errorf("when Redis answers again: %v", s.Problems.Queues)
		}
	})
}

func TestMemoryIsSampledRarely(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		for n := range 120 {
			f.queues[fmt.Sprintf("q%03d", n)] = asynq.QueueInfo{}
		}
		p := newPoller(t, Config{Source: f})
		ch := p.Subscribe(t.Context())
		for range 4 {
			<-ch
		}
		seen := make(map[string]int)
		f.set(func(f *fakeSource) {
			wantEqual(t, "calls", len(f.sampled), 3)
			for _, queues := range f.sampled {
				if len(queues) > memoryBatch {
					t.Errorf("one poll sampled %d queues", len(queues))
				}
				for _, q := range queues {
					seen[q]++
				}
			}
		})
		wantEqual(t, "queues that were sampled", len(seen), 120)
		if s := p.Latest(); s.Queues[119].Info.MemoryUsage != 3000 || s.Total.Memory != 50*1000+50*2000+20*3000 {
			t.Errorf("memory of the last queue is %d, of all %d", s.Queues[119].Info.MemoryUsage, s.Total.Memory)
		}
		time.Sleep(40 * time.Second)
		synctest.Wait()
		f.set(func(f *fakeSource) { wantEqual(t, "calls within 46 s", len(f.sampled), 6) })
	})
}

func TestUnhandledTypesAreCheckedRarely(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.queues["low"], f.queues["idle"] = asynq.QueueInfo{Pending: 1}, asynq.QueueInfo{Archived: 1}
		f.queues["other"], f.queues["alone"] = asynq.QueueInfo{Retry: 1}, asynq.QueueInfo{Retry: 1}
		known, unknown := worker(0, "low", "idle", "other"), worker(0, "other")
		known.Patterns = []string{"fax"}
		f.servers, f.unhandled = []*asynq.ServerInfo{known, unknown}, []asynq.UnhandledType{{Queue: "low", Type: "mail", Tasks: 1}}
		p := newPoller(t, Config{Source: f})
		ch := p.Subscribe(t.Context())
		for range 3 {
			<-ch
		}
		f.set(func(f *fakeSource) { wantEqual(t, "checks", f.checked, [][]string{{"low"}}) })
		wantEqual(t, "verdicts", kinds(p.Latest()), []string{"warning no-worker:alone", "warning unhandled-type:low"})
		f.set(func(f *fakeSource) { f.parts["unhandled"] = errDown })
		time.Sleep(unhandledAge)
		synctest.Wait()
		wantEqual(t, "verdicts after an error", kinds(p.Latest()), []string{"warning no-worker:alone", "warning unhandled-type:low"})
		f.set(func(f *fakeSource) {
			if len(f.checked) < 2 {
				t.Error("not checked again")
			}
			delete(f.parts, "unhandled")
			f.queues["low"] = asynq.QueueInfo{}
		})
		time.Sleep(unhandledAge)
		synctest.Wait()
		wantEqual(t, "verdicts without tasks", kinds(p.Latest()), []string{"warning no-worker:alone"})
	})
}

func TestRates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.queues["low"] = asynq.QueueInfo{ProcessedTotal: 1000, FailedTotal: 10, Pending: 500}
		p := newPoller(t, Config{Source: f})
		ch := p.Subscribe(t.Context())
		step := func(change func(*asynq.QueueInfo)) Queue {
			f.set(func(f *fakeSource) {
				info := f.queues["low"]
				change(&info)
				f.queues["low"] = info
			})
			s := <-ch
			q, _ := s.Queue("low")
			return q
		}
		if q := step(func(*asynq.QueueInfo) {}); q.Rate.Known {
			t.Errorf("a rate after one poll: %+v", q.Rate)
		}
		work := func(i *asynq.QueueInfo) { i.ProcessedTotal += 200; i.FailedTotal += 20; i.Pending -= 40 }
		q := step(work)
		wantEqual(t, "rate", q.Rate, Rate{Known: true, Processed: 100, Failed: 10, Backlog: -20})
		if d, ok := q.Drain(); !ok || d != 23*time.Second {
			t.Errorf("drains in %v, %v, want 23s", d, ok)
		}
		wantEqual(t, "total rate", p.Latest().Total.Rate, q.Rate)
		q = step(func(*asynq.QueueInfo) {})
		if r := q.Rate.Processed; r < 60 || r > 75 {
			t.Errorf("after 2 s without work the smoothed rate is %v, want about 67", r)
		}
		f.set(func(f *fakeSource) { f.broken["low"] = errDown })
		<-ch
		f.set(func(f *fakeSource) { delete(f.broken, "low") })
		for range 20 {
			q = step(func(i *asynq.QueueInfo) { i.ProcessedTotal += 20 })
		}
		if r := q.Rate.Processed; r < 9.9 || r > 10.1 || q.Rate.Failed != 0 {
			t.Errorf("a steady rate is %+v, want 10", q.Rate)
		}
		if _, ok := q.Drain(); ok {
			t.Error("a queue that does not become shorter drains")
		}
		q = step(func(i *asynq.QueueInfo) { i.ProcessedTotal = 5 })
		if q.Rate.Known {
			t.Errorf("the counters were reset, and the rate is %+v", q.Rate)
		}
		q = step(func(i *asynq.QueueInfo) { i.ProcessedTotal += 10 })
		wantEqual(t, "rate after that", q.Rate.Processed, 5)
	})
}

func TestLifecycle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		never := New(Config{Source: f, Logger: quiet()})
		ended := never.Subscribe(t.Context())
		never.Close()
		never.Close()
		never.Start()
		synctest.Wait()
		if _, ok := <-ended; ok || f.count() != 0 {
			t.Error("a poller that was closed before Start polled")
		}
		if _, ok := <-never.Subscribe(t.Context()); ok {
			t.Error("a closed poller told of something")
		}

		p := New(Config{Source: f, Logger: quiet()})
		f.hang = make(chan struct{}) // so that Close happens during a poll
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(p.Start)
			wg.Go(func() {
				for range p.Subscribe(t.Context()) {
				}
			})
			wg.Go(p.Wake)
		}
		synctest.Wait()
		for range 20 {
			wg.Go(p.Close)
		}
		wg.Wait()
		wantEqual(t, "polls", f.count(), 1)
		p.Start()
		synctest.Wait()
		wantEqual(t, "polls after Close", f.count(), 1)
	})
}

// The total latency excludes paused queues, whose tasks wait intentionally, and includes queues
// without servers.
func TestTotalLatencyIsWithoutPausedQueues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.queues["low"] = asynq.QueueInfo{Pending: 1, Latency: 3 * time.Second}
		f.queues["paused"] = asynq.QueueInfo{Pending: 1, Latency: time.Hour, Paused: true}
		p := newPoller(t, Config{Source: f})
		ch := p.Subscribe(t.Context())
		<-ch
		s := <-ch
		if s.Total.Latency != 3*time.Second || s.Total.Pending != 2 {
			t.Errorf("%+v", s.Total)
		}
		for queue, want := range map[string]float64{"": 3, "low": 3, "paused": 3600} {
			kept := p.History(queue, []Metric{Latency}, time.Minute).Values[Latency]
			if len(kept) == 0 || kept[len(kept)-1] != want {
				t.Errorf("of %q: %v, want %v", queue, kept, want)
			}
		}
	})
}
