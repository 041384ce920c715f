package filter_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/filter"
)

// seed makes tasks in two queues and several states, and returns an inspector.
func seed(t *testing.T) *asynq.Inspector {
	t.Helper()
	opt := asynq.RedisClientOpt{Addr: miniredis.RunT(t).Addr()}
	client, inspector := asynq.NewClient(opt), asynq.NewInspector(opt)
	t.Cleanup(func() {
		_ = client.Close()
		_ = inspector.Close()
	})
	var tasks []*asynq.Task
	for n := range 500 {
		tasks = append(tasks, asynq.NewTask(fmt.Sprintf("t:%d", n%2), fmt.Appendf(nil, `{"n":%d}`, n), asynq.Queue("a")))
	}
	tasks = append(tasks,
		asynq.NewTask("t:1", nil, asynq.Queue("b"), asynq.ProcessIn(time.Hour), asynq.TaskID("later")),
		asynq.NewTask("t:1", nil, asynq.Queue("b"), asynq.Group("g"), asynq.TaskID("grouped")),
		asynq.NewTask("t:1", nil, asynq.Queue("b"), asynq.Group("h"), asynq.TaskID("other")),
	)
	for _, r := range client.BatchEnqueueContext(t.Context(), tasks) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	return inspector
}

func TestScan(t *testing.T) {
	t.Parallel()
	inspector := seed(t)
	for text, tc := range map[string]struct {
		scan  filter.Scan
		found int
		looks int // tasks to scan
	}{
		"type:t:1":                 {found: 253, looks: 503},
		"queue:a payload:n=499":    {found: 1, looks: 500},
		"state:scheduled":          {found: 1, looks: 1},
		"type:t:*":                 {scan: filter.Scan{Group: "g"}, found: 1, looks: 1},
		"id:later OR id:other":     {scan: filter.Scan{Queues: []string{"b"}}, found: 2, looks: 3},
		"age<1h -state:scheduled ": {scan: filter.Scan{States: []asynq.TaskState{asynq.TaskStateAggregating}}, found: 2, looks: 2},
	} {
		var last filter.Progress
		s := tc.scan
		s.Filter, s.Progress = filter.MustParse(text), func(p filter.Progress) { last = p }
		found := 0
		for _, err := range s.Tasks(t.Context(), inspector) {
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			found++
		}
		if found != tc.found || last.Looked != tc.looks || last.Found != found {
			t.Errorf("%s: found %d, progress %+v; want %d of %d", text, found, last, tc.found, tc.looks)
		}
	}
}

func TestScanEnds(t *testing.T) {
	t.Parallel()
	inspector := seed(t)
	last := func(ctx context.Context, s filter.Scan) (n int, err error) {
		for _, e := range s.Tasks(ctx, inspector) {
			if err = e; e == nil {
				n++
			}
		}
		return n, err
	}
	if n, err := last(t.Context(), filter.Scan{MaxScan: 300}); n != 300 || !errors.Is(err, asynq.ErrScanLimit) {
		t.Errorf("with MaxScan: %d tasks, error %v", n, err)
	}
	if n, err := last(t.Context(), filter.Scan{Queues: []string{"nowhere", "b"}}); n != 3 || err != nil && !errors.Is(err, asynq.ErrQueueNotFound) {
		t.Errorf("with an unknown queue: %d tasks, error %v", n, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	n, err := last(ctx, filter.Scan{Progress: func(filter.Progress) { cancel() }})
	if n > 250 || !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %d tasks, error %v", n, err)
	}
	seen := 0
	for _, err := range (filter.Scan{}).Tasks(t.Context(), inspector) {
		if err != nil {
			t.Fatal(err)
		}
		if seen++; seen == 2 {
			break
		}
	}
	if !slices.Contains(filter.Fields(), "payload") || len(filter.States()) != len(filter.AllStates) {
		t.Error("fields or states are missing")
	}
	if s, ok := filter.ParseState("Retry"); !ok || s != asynq.TaskStateRetry {
		t.Errorf("got %v, %v", s, ok)
	}
}
