package survey_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/web/internal/survey"
)

type site struct {
	*survey.Survey
	t         *testing.T
	redis     *miniredis.Miniredis
	inspector *asynq.Inspector
	client    *asynq.Client
	imports   int
}

func newSite(t *testing.T, perState int) *site {
	t.Helper()
	redis := miniredis.RunT(t)
	opt := asynq.RedisClientOpt{Addr: redis.Addr()}
	s := &site{t: t, redis: redis, inspector: asynq.NewInspector(opt), client: asynq.NewClient(opt)}
	s.Survey = survey.New(survey.Config{Inspector: s.inspector, PerState: perState, Fresh: time.Hour, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	t.Cleanup(func() {
		s.Close()
		s.Close() // once more is safe
		_ = s.client.Close()
		_ = s.inspector.Close()
	})
	return s
}

// put stores tasks verbatim.
func (s *site) put(queue string, tasks ...*asynq.TaskRecord) {
	s.t.Helper()
	for n, r := range tasks {
		r.ID, r.Type = cmp.Or(r.ID, fmt.Sprint("t", s.imports, "-", n)), cmp.Or(r.Type, "x")
		if r.At.IsZero() {
			r.At = time.Now().Add(time.Hour)
		}
	}
	s.imports++
	for page := range slices.Chunk(tasks, 200) {
		errs, err := s.inspector.ImportTasks(context.Background(), queue, asynq.ImportOptions{IdempotencyKey: fmt.Sprint(s.imports, page[0].ID)}, page)
		if err := errors.Join(append(errs, err)...); err != nil {
			s.t.Fatal(err)
		}
	}
}

// whole waits for a complete survey.
func (s *site) whole() (whole *survey.Result) {
	s.t.Helper()
	proctest.Eventually(s.t, "the survey to end", func() bool {
		r, err := s.Tasks(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		whole = r
		return r.Whole
	})
	return whole
}

func failed(state asynq.TaskState, typename, text string, ago time.Duration) *asynq.TaskRecord {
	return &asynq.TaskRecord{State: state, Type: typename, LastErr: text, LastFailedAt: time.Now().Add(-ago), Retried: 2, MaxRetry: 5}
}

func TestErrorsOfAKind(t *testing.T) {
	t.Parallel()
	s := newSite(t, 0)
	s.put("a",
		failed(asynq.TaskStateRetry, "mail", "user 1 is gone", time.Minute), failed(asynq.TaskStateRetry, "mail", "user 2 is gone", 3*time.Hour),
		failed(asynq.TaskStateRetry, "mail", "user 2 is gone", 30*time.Hour), failed(asynq.TaskStateRetry, "image", "user 3 is gone", time.Minute),
		failed(asynq.TaskStateRetry, "mail", "", 0))
	s.put("b",
		failed(asynq.TaskStateArchived, "mail", "user 4 is gone", time.Second), failed(asynq.TaskStateArchived, "mail", "no such order", time.Minute),
		failed(asynq.TaskStatePending, "mail", "user 5 is gone", time.Minute)) // the task was run again
	r := s.whole()
	if len(r.Failures) != 2 || r.Of(asynq.TaskStateRetry, asynq.TaskStateArchived).Scanned != 7 || r.Of().Cut {
		t.Fatalf("%d kinds, %+v", len(r.Failures), r.Extents)
	}
	f := r.Failures[0]
	if f.Kind != "user # is gone" || f.N != 5 || f.ID != survey.Identify("user 99 is gone") || r.Failure(f.ID) != f {
		t.Errorf("%+v", f)
	}
	// The command line has the same ID: x/cmd/asynq/internal/failures checks it as well.
	if f.ID != "fe7b290781a6396f" {
		t.Errorf("its ID is %q", f.ID)
	}
	if len(f.Types) != 2 || f.Types[0].Name != "mail" || f.Types[0].N != 4 || f.Types[1].Name != "image" || survey.Sum(f.Of("image"), "a", 0) != 1 || f.Of("none") != nil {
		t.Errorf("types %+v", f.Types)
	}
	if want := []survey.Share{{Queue: "a", State: asynq.TaskStateRetry, N: 4}, {Queue: "b", State: asynq.TaskStateArchived, N: 1}}; !slices.Equal(f.Shares, want) {
		t.Errorf("shares %v, want %v", f.Shares, want)
	}
	if n := survey.Sum(f.Shares, "a", 0) + survey.Sum(f.Shares, "", asynq.TaskStateArchived); n != 5 {
		t.Errorf("the parts are %d", n)
	}
	if f.Texts[0].Text != "user 2 is gone" || f.Texts[0].N != 2 || len(f.Texts) != 4 {
		t.Errorf("texts %v", f.Texts)
	}
	if len(f.Tasks) != 5 || f.Tasks[0].Queue != "b" || f.Tasks[0].Retried != 2 || f.Tasks[0].MaxRetry != 5 || !slices.IsSortedFunc(f.Tasks, func(a, b survey.Ref) int { return b.At.Compare(a.At) }) {
		t.Errorf("tasks %v", f.Tasks)
	}
	if age := time.Since(f.First); age.Round(time.Hour) != 30*time.Hour || time.Since(f.Last) > time.Minute {
		t.Errorf("from %v to %v", f.First, f.Last)
	}
	sum := 0
	for _, n := range f.ByHour {
		sum += n
	}
	if sum != 4 || f.ByHour[survey.Hours-1] != 3 {
		t.Errorf("by hour: %v", f.ByHour)
	}
}

func TestTypes(t *testing.T) {
	t.Parallel()
	s := newSite(t, 0)
	s.put("a",
		failed(asynq.TaskStateRetry, "mail", "no", time.Hour), failed(asynq.TaskStateArchived, "mail", "", 2*time.Hour),
		&asynq.TaskRecord{State: asynq.TaskStateCompleted, Type: "mail", CompletedAt: time.Now().Add(-time.Minute), Retention: time.Hour * 9},
		&asynq.TaskRecord{State: asynq.TaskStateCompleted, Type: "mail", CompletedAt: time.Now().Add(-2 * time.Hour), Retention: time.Hour * 9},
		&asynq.TaskRecord{State: asynq.TaskStateScheduled, Type: "image"})
	s.put("b", &asynq.TaskRecord{State: asynq.TaskStatePending, Type: "mail"}, &asynq.TaskRecord{State: asynq.TaskStateAggregating, Type: "mail", Group: "g"})
	r := s.whole()
	if len(r.Types) != 2 || r.Type("image").N != 1 || r.Type("none") != nil {
		t.Fatalf("%+v", r.Types)
	}
	m := r.Type("mail")
	if m.N != 6 || m.Failed() != 2 || m.LastHour != 1 || time.Since(m.Failing).Round(time.Hour) != 2*time.Hour || survey.Sum(m.Shares, "b", 0) != 2 {
		t.Errorf("%+v", m)
	}
	if len(m.Tasks) != 6 || m.Tasks[0].State != asynq.TaskStateCompleted {
		t.Errorf("tasks %+v", m.Tasks)
	}
}

func TestSharesOfABound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		counts []int
		bound  int
		want   []int
	}{
		{[]int{5, 0, 3}, 100, []int{5, 0, 3}},
		{[]int{1000, 10, 1000}, 110, []int{50, 10, 50}},
		{[]int{7}, 0, []int{0}},
		{nil, 10, []int{}},
	} {
		if got := survey.Shares(c.counts, c.bound); !slices.Equal(got, c.want) {
			t.Errorf("%d of %v: %v, want %v", c.bound, c.counts, got, c.want)
		}
	}
}

func TestABoundIsTold(t *testing.T) {
	t.Parallel()
	s := newSite(t, 300)
	var many []*asynq.TaskRecord
	for n := range 500 {
		many = append(many, failed(asynq.TaskStateRetry, "mail", fmt.Sprint("user ", n, " is gone"), time.Minute))
	}
	s.put("large", many...)
	s.put("small", failed(asynq.TaskStateRetry, "mail", "small", time.Minute), failed(asynq.TaskStateArchived, "mail", "small", time.Minute))
	r := s.whole()
	if of := r.Of(asynq.TaskStateRetry); of.Scanned != 300 || of.Total != 501 || !of.Cut {
		t.Errorf("of retry: %+v", of)
	}
	if of := r.Of(asynq.TaskStateArchived); of.Cut || of.Scanned != 1 {
		t.Errorf("of archived: %+v", of)
	}
	if len(r.Failures) != 2 || r.Failures[0].N != 299 || r.Failures[1].N != 2 || len(r.Failures[0].Tasks) != 20 || len(r.Failures[0].Texts) != 8 {
		t.Errorf("%d kinds of errors", len(r.Failures))
	}
}

func TestABrokenQueueLeavesTheOthersAlone(t *testing.T) {
	t.Parallel()
	s := newSite(t, 0)
	s.put("bad", failed(asynq.TaskStateRetry, "mail", "no", time.Minute))
	s.put("good", failed(asynq.TaskStateRetry, "mail", "no", time.Minute))
	s.redis.Del("asynq:{bad}:retry")
	if err := s.redis.Set("asynq:{bad}:retry", "of another type"); err != nil {
		t.Fatal(err)
	}
	r := s.whole()
	if len(r.Broken) != 1 || r.Broken[0].Queue != "bad" || len(r.Failures) != 1 || r.Failures[0].N != 1 {
		t.Errorf("broken %v, %d kinds of errors", r.Broken, len(r.Failures))
	}
	g, err := s.Groups(t.Context())
	if err != nil || len(g.Broken) != 1 {
		t.Errorf("%+v, %v", g, err)
	}
}

func TestLargePayloadsAreTakenInSmallPages(t *testing.T) {
	t.Parallel()
	s := newSite(t, 0)
	for range 3 {
		for range 10 {
			if _, err := s.client.Enqueue(asynq.NewTask("big", []byte(strings.Repeat("x", 200<<10)))); err != nil {
				t.Fatal(err)
			}
		}
	}
	if r := s.whole(); r.Type("big").N != 30 {
		t.Errorf("%+v", r.Type("big"))
	}
}

func TestRedisIsGone(t *testing.T) {
	t.Parallel()
	s := newSite(t, 0)
	s.redis.Close()
	proctest.Eventually(s.t, "an error of the survey", func() bool {
		r, err := s.Tasks(t.Context())
		return err != nil && r != nil && r.Failure("x") == nil
	})
	proctest.Eventually(s.t, "an error of the groups", func() bool {
		g, err := s.Groups(t.Context())
		return err != nil && g == nil
	})
}

func TestGroups(t *testing.T) {
	t.Parallel()
	s := newSite(t, 0)
	s.put("q", &asynq.TaskRecord{State: asynq.TaskStateAggregating, Group: "<g>", At: time.Now().Add(-time.Hour)}, &asynq.TaskRecord{State: asynq.TaskStateAggregating, Group: "<g>"})
	s.put("p", &asynq.TaskRecord{State: asynq.TaskStateAggregating, Group: "z"})
	g, err := s.Groups(t.Context())
	if err != nil || len(g.Rows) != 2 || g.Rows[0].Queue != "p" || g.Rows[1].Name != "<g>" || g.Rows[1].Size != 2 ||
		time.Since(g.Rows[1].Oldest).Round(time.Hour) != time.Hour {
		t.Errorf("%+v, %v", g, err)
	}
}
