package bulk_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/web/internal/bulk"
)

type site struct {
	*bulk.Manager
	t         *testing.T
	redis     *miniredis.Miniredis
	client    *asynq.Client
	inspector *asynq.Inspector
	opt       asynq.RedisClientOpt
}

func newSite(t *testing.T, change func(*bulk.Config)) *site {
	t.Helper()
	redis := miniredis.RunT(t)
	opt := asynq.RedisClientOpt{Addr: redis.Addr()}
	s := &site{t: t, redis: redis, client: asynq.NewClient(opt), inspector: asynq.NewInspector(opt), opt: opt}
	cfg := bulk.Config{Inspector: s.inspector, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
	if change != nil {
		change(&cfg)
	}
	s.Manager = bulk.New(cfg)
	t.Cleanup(func() {
		_ = s.Manager.Close()
		_ = s.client.Close()
		_ = s.inspector.Close()
	})
	return s
}

// enqueue enqueues tasks t0, t1, … of the types even and odd.
func (s *site) enqueue(n int, opts ...asynq.Option) {
	s.t.Helper()
	tasks := make([]*asynq.Task, n)
	for i := range tasks {
		tasks[i] = asynq.NewTask([]string{"even", "odd"}[i%2], nil, asynq.TaskID(fmt.Sprint("t", i)))
	}
	for _, r := range s.client.BatchEnqueueContext(context.Background(), tasks, opts...) {
		if r.Err != nil {
			s.t.Fatal(r.Err)
		}
	}
}

// run starts an operation and waits for its end.
func (s *site) run(spec bulk.Spec) bulk.Operation {
	s.t.Helper()
	audited := make(chan bulk.Operation, 2)
	op, err := s.Start("ann", spec, func(op bulk.Operation) { audited <- op })
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	op, ok := s.Wait(ctx, op.ID)
	if !ok || !op.Status.Ended() {
		s.t.Fatalf("%+v, known %v", op, ok)
	}
	if a := <-audited; a.ID != op.ID || a.Changed != op.Changed || a.Status != op.Status {
		s.t.Errorf("told after its end: %+v, want %+v", a, op)
	}
	return op
}

func TestChangesByFilter(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.enqueue(700, asynq.ProcessIn(time.Hour))
	spec := bulk.Spec{Kind: bulk.Archive, Queue: "default", State: "scheduled", Filter: "type:odd"}
	if c, err := s.Count(context.Background(), spec, 10000); err != nil || c != (bulk.Count{N: 350, Scanned: 700, Complete: true}) {
		t.Errorf("counted: %+v, error %v", c, err)
	}
	if c, err := s.Count(context.Background(), spec, 100); err != nil || c.Scanned != 100 || c.Complete || c.N == 0 || c.N > 90 {
		t.Errorf("counted among 100: %+v, error %v", c, err)
	}
	op := s.run(spec)
	if op.Status != bulk.Done || op.Total != 700 || op.Scanned != 700 || op.Matched != 350 || op.Changed != 350 || op.User != "ann" {
		t.Errorf("%+v", op)
	}
	spec = bulk.Spec{Kind: bulk.Run, Queue: "default", State: "archived"}
	if c, err := s.Count(context.Background(), spec, 1); err != nil || c != (bulk.Count{N: 350, Complete: true}) {
		t.Errorf("counted without a filter: %+v, error %v", c, err)
	}
	if op := s.run(spec); op.Changed != 350 {
		t.Errorf("%+v", op)
	}
	if op := s.run(bulk.Spec{Kind: bulk.Delete, Queue: "default", State: "pending"}); op.Changed != 350 {
		t.Errorf("%+v", op)
	}
	info, err := s.inspector.GetQueueInfo("default")
	if err != nil || info.Scheduled != 350 || info.Pending+info.Archived != 0 {
		t.Errorf("at the end: %+v, error %v", info, err)
	}
}

func TestFiltersSeeWhatIsShown(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *bulk.Config) {
		c.Seen = func(task *asynq.TaskInfo) *asynq.TaskInfo {
			seen := *task
			seen.Payload = []byte("hidden")
			return &seen
		}
	})
	if _, err := s.client.Enqueue(asynq.NewTask("x", []byte("secret")), asynq.ProcessIn(time.Hour)); err != nil {
		t.Fatal(err)
	}
	spec := bulk.Spec{Kind: bulk.Delete, Queue: "default", State: "scheduled", Filter: "payload:secret"}
	if c, err := s.Count(context.Background(), spec, 10); err != nil || c.N != 0 {
		t.Errorf("%+v, error %v", c, err)
	}
	if op := s.run(spec); op.Changed != 0 || op.Scanned != 1 {
		t.Errorf("%+v", op)
	}
	spec.Filter = "payload:hidden"
	if op := s.run(spec); op.Changed != 1 {
		t.Errorf("%+v", op)
	}
}

func TestChangesASelection(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.enqueue(20, asynq.ProcessIn(time.Hour))
	op := s.run(bulk.Spec{Kind: bulk.Delete, Queue: "default", IDs: []string{"t3", "none", "t4"}})
	if op.Status != bulk.Done || op.Changed != 2 || op.Failed != 1 || len(op.Results) != 3 || op.Total != 3 {
		t.Fatalf("%+v", op)
	}
	for n, want := range []error{nil, asynq.ErrTaskNotFound, nil} {
		if got := op.Results[n].Err; !errors.Is(got, want) {
			t.Errorf("result %d: %v, want %v", n, got, want)
		}
	}
}

func TestChangesAGroup(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.enqueue(4, asynq.Group("a"))
	if _, err := s.client.Enqueue(asynq.NewTask("x", nil), asynq.Group("b")); err != nil {
		t.Fatal(err)
	}
	spec := bulk.Spec{Kind: bulk.Delete, Queue: "default", State: "aggregating", Group: "a"}
	if c, err := s.Count(context.Background(), spec, 1); err != nil || c.N != 4 {
		t.Errorf("%+v, error %v", c, err)
	}
	if op := s.run(spec); op.Changed != 4 || op.Total != 4 {
		t.Errorf("%+v", op)
	}
}

func TestCancelsActiveTasks(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.enqueue(3)
	began, ended := make(chan struct{}, 3), make(chan struct{}, 3)
	srv := asynq.NewServer(s.opt, asynq.Config{
		Concurrency: 3, Logger: asynq.NewSlogLogger(slog.New(slog.NewTextHandler(io.Discard, nil))),
	})
	if err := srv.Start(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		began <- struct{}{}
		<-ctx.Done()
		ended <- struct{}{}
		return asynq.SkipRetry
	})); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Shutdown)
	for range 3 {
		<-began
	}
	proctest.Eventually(t, "the server to subscribe to cancelations", func() bool {
		const channel = "asynq:cancel"
		return s.redis.PubSubNumSub(channel)[channel] > 0
	})
	if op := s.run(bulk.Spec{Kind: bulk.Cancel, Queue: "default", State: "active"}); op.Changed != 3 || op.Status != bulk.Done {
		t.Errorf("%+v", op)
	}
	for range 3 {
		<-ended
	}
}

// Match restricts the matches of the filter, and applies without a filter as well.
func TestMatchRestrictsTheFilter(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.enqueue(20, asynq.ProcessIn(time.Hour))
	spec := bulk.Spec{Kind: bulk.Delete, Queue: "default", State: "scheduled", Filter: "type:odd", Like: "a digit", Match: func(t *asynq.TaskInfo) bool { return len(t.ID) == 2 }}
	if c, err := s.Count(t.Context(), spec, 1000); err != nil || c.N != 5 || c.Scanned != 20 {
		t.Errorf("%+v, %v", c, err)
	}
	if op := s.run(spec); op.Changed != 5 || op.Spec.Like != "a digit" {
		t.Errorf("%+v", op)
	}
	spec.Filter = ""
	if c, err := s.Count(t.Context(), spec, 1000); err != nil || c.N != 5 {
		t.Errorf("%+v, %v", c, err)
	}
	if op := s.run(spec); op.Changed != 5 {
		t.Errorf("%+v", op)
	}
}

func TestRefusesWhatIsWrong(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	for field, spec := range map[string]bulk.Spec{
		"kind":   {Kind: "paint", Queue: "q", State: "pending"},
		"queue":  {Kind: bulk.Run, State: "archived"},
		"state":  {Kind: bulk.Run, Queue: "q", State: "pending"},
		"group":  {Kind: bulk.Run, Queue: "q", State: "archived", Group: "g"},
		"filter": {Kind: bulk.Run, Queue: "q", State: "archived", Filter: "tpye:x"},
		"ids":    {Kind: bulk.Run, Queue: "q", IDs: make([]string, bulk.MaxIDs+1)},
	} {
		var wrong *bulk.SpecError
		if _, err := s.Start("", spec, nil); !errors.As(err, &wrong) || wrong.Field != field {
			t.Errorf("%+v: %v, want one of %s", spec, err, field)
		}
	}
	if op := s.run(bulk.Spec{Kind: bulk.Run, Queue: "none", State: "archived"}); op.Status != bulk.Failed || op.Err == "" {
		t.Errorf("no such queue: %+v", op)
	}
}

// An operation holds the only slot, because Redis does not respond.
func TestCancelAndClose(t *testing.T) {
	t.Parallel()
	redis := miniredis.RunT(t)
	silent := asynq.NewInspector(asynq.RedisClientOpt{Addr: redis.Addr()})
	t.Cleanup(func() { _ = silent.Close() })
	s := newSite(t, func(c *bulk.Config) { c.Parallel, c.Inspector = 1, silent })
	client := asynq.NewClient(asynq.RedisClientOpt{Addr: redis.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	if _, err := client.Enqueue(asynq.NewTask("x", nil), asynq.ProcessIn(time.Hour)); err != nil {
		t.Fatal(err)
	}
	redis.Lock() // Redis does not respond
	spec := bulk.Spec{Kind: bulk.Run, Queue: "default", State: "scheduled"}
	first, err := s.Start("", spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	for op := first; op.Status != bulk.Running; op, _ = s.Get(first.ID) {
		changed := s.Changed()
		if op, _ = s.Get(first.ID); op.Status == bulk.Running {
			break
		}
		<-changed
	}
	second, err := s.Start("", spec, nil)
	if err != nil || second.Status != bulk.Waiting {
		t.Fatal(second, err)
	}
	if list := s.List(); len(list) != 2 || list[0].ID != second.ID {
		t.Errorf("listed: %+v", list)
	}
	s.Cancel(second.ID)
	if op, _ := s.Wait(context.Background(), second.ID); op.Status != bulk.Canceled || op.Changed != 0 {
		t.Errorf("canceled: %+v", op)
	}
	third, err := s.Start("", spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{})
	go func() { _ = s.Manager.Close(); close(closed) }()
	if op, _ := s.Wait(context.Background(), third.ID); op.Status != bulk.Canceled || op.Err == "" {
		t.Errorf("canceled by the end: %+v", op)
	}
	if _, err := s.Start("", spec, nil); !errors.Is(err, bulk.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
	redis.Unlock()
	<-closed
	if op, _ := s.Get(first.ID); op.Status != bulk.Canceled || op.Err == "" {
		t.Errorf("closed: %+v", op)
	}
	if _, ok := s.Cancel("none"); ok {
		t.Error("an unknown operation is canceled")
	}
}

// A canceled operation reports exactly its changes.
func TestCancelHalfWay(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	const n = 3000
	s.enqueue(n, asynq.ProcessIn(time.Hour))
	scanned := 0
	op := s.run(bulk.Spec{Kind: bulk.Archive, Queue: "default", State: "scheduled", Match: func(*asynq.TaskInfo) bool {
		if scanned++; scanned == n/2 { // some tasks are changed by now
			s.Cancel(s.List()[0].ID)
		}
		return true
	}})
	info, err := s.inspector.GetQueueInfo("default")
	if err != nil {
		t.Fatal(err)
	}
	if op.Status != bulk.Canceled || op.Err == "" || op.Changed != info.Archived || op.Changed == 0 || op.Changed == n || info.Scheduled != n-op.Changed {
		t.Errorf("%+v, and there are %d in the archive and %d left", op, info.Archived, info.Scheduled)
	}
}

// Operations on selected tasks do not wait for operations by filter.
func TestSelectedTasksDoNotWaitForFilters(t *testing.T) {
	t.Parallel()
	held, release := make(chan struct{}), make(chan struct{})
	s := newSite(t, func(c *bulk.Config) {
		c.Parallel = 1
		c.Seen = func(task *asynq.TaskInfo) *asynq.TaskInfo {
			held <- struct{}{}
			<-release
			return task
		}
	})
	s.enqueue(2)
	all, err := s.Start("", bulk.Spec{Kind: bulk.Delete, Queue: "default", State: "pending", Filter: "payload:x"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	<-held // the only slot
	if op := s.run(bulk.Spec{Kind: bulk.Delete, Queue: "default", IDs: []string{"t0"}}); op.Changed != 1 {
		t.Errorf("%+v", op)
	}
	s.Cancel(all.ID)
	go func() {
		for range held { // until the operation has ended
		}
	}()
	close(release)
	s.Wait(context.Background(), all.ID)
	close(held)
}

func TestForgets(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := newSite(t, func(c *bulk.Config) { c.Now = func() time.Time { return now } })
	s.enqueue(1)
	spec := bulk.Spec{Kind: bulk.Delete, Queue: "default", IDs: []string{"t"}}
	for range 210 {
		s.run(spec)
	}
	if n := len(s.List()); n > 201 {
		t.Errorf("%d operations are remembered", n)
	}
	now = now.Add(61 * time.Minute)
	if n := len(s.List()); n != 0 {
		t.Errorf("%d operations are remembered after an hour", n)
	}
}
