package asynq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
)

// slowSender plays a Redis that takes a second for each pipeline.
type slowSender struct {
	mu      sync.Mutex
	batches [][]*rdb.NewTask
	most    int
	now     int
}

func (s *slowSender) send(_ context.Context, tasks ...*rdb.NewTask) {
	s.mu.Lock()
	s.batches = append(s.batches, tasks)
	s.now++
	s.most = max(s.most, s.now)
	s.mu.Unlock()
	time.Sleep(time.Second)
	s.mu.Lock()
	s.now--
	s.mu.Unlock()
	for _, t := range tasks {
		if t.ID == "refused" {
			t.Err = rdb.ErrTaskIDConflict
		}
	}
}

func (s *slowSender) sent() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, b := range s.batches {
		n += len(b)
	}
	return n
}

func TestCombinerSharesPipelines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowSender{}
		c := &combiner{send: s.send}
		const calls = 100
		var wg sync.WaitGroup
		for i := range calls {
			wg.Go(func() {
				task := &rdb.NewTask{ID: fmt.Sprint(i)}
				want := error(nil)
				if i == 50 {
					task.ID, want = "refused", rdb.ErrTaskIDConflict
				}
				if err := c.enqueue(context.Background(), task); !errors.Is(err, want) {
					t.Errorf("call %d: %v, want %v", i, err, want)
				}
			})
		}
		start := time.Now()
		wg.Wait()
		// Two pipelines leave at once with little in them; all others wait for one of them and share the next.
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("%d calls took %v, in %d pipelines", calls, took, len(s.batches))
		}
		if s.sent() != calls || s.most > maxFlights {
			t.Errorf("sent %d tasks, want %d, in up to %d pipelines at once, want at most %d", s.sent(), calls, s.most, maxFlights)
		}
		synctest.Wait()
		if c.flights != 0 || len(c.waiting) != 0 {
			t.Errorf("in the end %d flights and %d calls are left", c.flights, len(c.waiting))
		}
	})
}

func TestCombinerLoneCallGoesOutAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowSender{}
		c := &combiner{send: s.send}
		start := time.Now()
		if err := c.enqueue(context.Background(), &rdb.NewTask{}); err != nil || time.Since(start) != time.Second {
			t.Errorf("took %v, error %v", time.Since(start), err)
		}
	})
}

// A second pipeline leaves with as many calls as are worth it; what is too little for that goes with the first one, when it is back.
func TestCombinerSecondFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowSender{}
		c := &combiner{send: s.send}
		var wg sync.WaitGroup
		call := func(n int) {
			for range n {
				wg.Go(func() { _ = c.enqueue(context.Background(), &rdb.NewTask{}) })
			}
			synctest.Wait()
		}
		left := func(want ...int) {
			t.Helper()
			var got []int
			s.mu.Lock()
			for _, batch := range s.batches {
				got = append(got, len(batch))
			}
			s.mu.Unlock()
			if !slices.Equal(got, want) {
				t.Errorf("pipelines of %v calls have left, want %v", got, want)
			}
		}
		call(1)
		call(minSecond - 1)
		left(1)
		call(1)
		left(1, minSecond)
		call(5)
		left(1, minSecond)
		wg.Wait()
		synctest.Wait()
		left(1, minSecond, 5)
		if s.most != 2 || c.flights != 0 {
			t.Errorf("%d pipelines at once, and %d in the end", s.most, c.flights)
		}
	})
}

func TestCombinerReturnsWithItsAnswerUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowSender{}
		c := &combiner{send: s.send}
		ctx, stop := context.WithCancel(context.Background())
		var others sync.WaitGroup
		var answered atomic.Int64
		for range 20 {
			others.Go(func() {
				for ctx.Err() == nil {
					if c.enqueue(context.Background(), &rdb.NewTask{}) == nil {
						answered.Add(1)
					}
				}
			})
		}
		for range 10 {
			start := time.Now()
			if err := c.enqueue(context.Background(), &rdb.NewTask{}); err != nil || time.Since(start) > 2*time.Second {
				t.Errorf("a call among many took %v, error %v", time.Since(start), err)
			}
		}
		stop()
		others.Wait()
		if int(answered.Load())+10 != s.sent() {
			t.Errorf("%d answers for %d tasks sent", answered.Load()+10, s.sent())
		}
	})
}

func TestCombinerHeedsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowSender{}
		c := &combiner{send: s.send}

		ended, end := context.WithCancel(context.Background())
		end()
		if err := c.enqueue(ended, &rdb.NewTask{}); !errors.Is(err, context.Canceled) || s.sent() != 0 {
			t.Errorf("with an ended context: %v, and %d tasks sent", err, s.sent())
		}

		short, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		start := time.Now()
		err := c.enqueue(short, &rdb.NewTask{})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 100*time.Millisecond || s.sent() != 1 {
			t.Errorf("on its way when the deadline passed: %v after %v, %d tasks sent", err, time.Since(start), s.sent())
		}
		time.Sleep(5 * time.Second)

		var wg sync.WaitGroup
		wg.Go(func() { _ = c.enqueue(context.Background(), &rdb.NewTask{}) }) // the line is busy
		synctest.Wait()
		before := s.sent()
		waiting, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		if err := c.enqueue(waiting, &rdb.NewTask{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("waiting when the deadline passed: %v", err)
		}
		wg.Wait()
		time.Sleep(5 * time.Second)
		if s.sent() != before {
			t.Errorf("a call that was given up before it left was sent all the same")
		}
	})
}
