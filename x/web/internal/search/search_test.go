package search_test

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
	"github.com/asynq-go/asynq/x/web/internal/search"
)

type site struct {
	*testing.T
	redis     *miniredis.Miniredis
	client    *asynq.Client
	inspector *asynq.Inspector
}

func newSite(t *testing.T) *site {
	t.Helper()
	t.Parallel()
	s := &site{T: t, redis: miniredis.RunT(t)}
	opt := asynq.RedisClientOpt{Addr: s.redis.Addr()}
	s.client, s.inspector = asynq.NewClient(opt), asynq.NewInspector(opt)
	t.Cleanup(func() { _, _ = s.client.Close(), s.inspector.Close() })
	return s
}

// put enqueues n tasks, of which every other is odd, and returns their names in the form of found.
func (s *site) put(queue string, n int, opts ...asynq.Option) (names []string) {
	s.Helper()
	tasks := make([]*asynq.Task, n)
	for i := range tasks {
		id := fmt.Sprintf("%s-%03d", queue, i)
		tasks[i] = asynq.NewTask([]string{"even", "odd"}[i%2], []byte("secret "+id), asynq.TaskID(id), asynq.Queue(queue))
		names = append(names, queue+"/"+id)
	}
	for _, r := range s.client.BatchEnqueueContext(s.Context(), tasks, opts...) {
		if r.Err != nil {
			s.Fatal(r.Err)
		}
	}
	return names
}

func (s *site) filter(text string) *filter.Filter {
	s.Helper()
	f, err := filter.Parse(text)
	if err != nil {
		s.Fatal(err)
	}
	return f
}

var wide = search.Bounds{Found: 1000, Scanned: 10_000}

// all follows a search to its end, and calls between before each part except the first.
func (s *site) all(q *search.Search, most search.Bounds, between func(part int)) (found []string, scanned, parts int) {
	s.Helper()
	for cursor := ""; ; {
		part, err := q.Part(s.Context(), s.inspector, cursor, most)
		if err != nil || len(part.Errors) > 0 {
			s.Fatal(err, part)
		}
		if part.Found != len(part.Tasks) || part.Found > most.Found {
			s.Fatalf("%d tasks, %d found, of up to %d", len(part.Tasks), part.Found, most.Found)
		}
		for _, t := range part.Tasks {
			found = append(found, t.Queue+"/"+t.ID)
		}
		scanned, parts, cursor = scanned+part.Scanned, parts+1, part.Next
		if cursor == "" {
			return found, scanned, parts
		}
		if parts > 500 {
			s.Fatal("there is no end")
		}
		if between != nil {
			between(parts)
		}
	}
}

func TestPartsMakeTheWhole(t *testing.T) {
	s := newSite(t)
	want := slices.Concat(
		s.put("a", 70, asynq.ProcessIn(time.Hour)), s.put("b", 5), s.put("c", 130, asynq.ProcessIn(time.Hour)), s.put("c2", 3, asynq.Group("g")),
	)
	slices.Sort(want)
	for _, most := range []search.Bounds{wide, {Found: 7, Scanned: 1000}, {Found: 1000, Scanned: 9}, {Found: 60, Scanned: 100, Time: time.Hour}} {
		found, scanned, parts := s.all(&search.Search{Filter: s.filter("")}, most, nil)
		slices.Sort(found)
		if !slices.Equal(found, want) || scanned != len(want) {
			t.Errorf("%+v: %d found in %d parts, %d scanned at", most, len(found), parts, scanned)
		}
		if least := len(want) / min(most.Found, most.Scanned); parts <= least-1 {
			t.Errorf("%+v: only %d parts", most, parts)
		}
	}
}

func TestWhereAndWhat(t *testing.T) {
	s := newSite(t)
	s.put("a", 10, asynq.ProcessIn(time.Hour))
	s.put("b", 4)
	s.put("c", 3, asynq.Group("g"))
	s.put("d", 2, asynq.Group("h"))
	for _, c := range []struct {
		search search.Search
		filter string
		want   int
		total  int
	}{
		{search.Search{}, "", 19, 19},
		{search.Search{}, "type:odd", 9, 19},
		{search.Search{}, "queue:a type:odd", 5, 10},
		{search.Search{}, "state:pending", 4, 4},
		{search.Search{Queues: []string{"a", "b"}}, "", 14, 14},
		{search.Search{States: []asynq.TaskState{asynq.TaskStateScheduled}}, "", 10, 10},
		{search.Search{States: []asynq.TaskState{asynq.TaskStateAggregating}, Group: "g"}, "", 3, 5},
		{search.Search{}, "payload:a-003", 1, 19},
		{search.Search{Seen: func(t *asynq.TaskInfo) *asynq.TaskInfo {
			c := *t
			c.Payload = nil
			return &c
		}}, "payload:secret", 0, 19},
	} {
		c.search.Filter = s.filter(c.filter)
		part, err := c.search.Part(t.Context(), s.inspector, "", wide)
		if err != nil {
			t.Fatal(err)
		}
		if part.Found != c.want || part.Total != c.total || part.Next != "" {
			t.Errorf("%+v, filter %q: %d found of %d", c.search, c.filter, part.Found, part.Total)
		}
	}
}

// Each remaining task is found once, even if other tasks change, including the one where a part
// ended.
func TestSearchContinuesAfterRemovedTasks(t *testing.T) {
	s := newSite(t)
	stays := slices.Concat(s.put("a", 20, asynq.ProcessIn(time.Hour)), s.put("c", 20, asynq.ProcessIn(time.Hour)))
	s.put("b", 20, asynq.ProcessIn(time.Hour))
	found, _, _ := s.all(&search.Search{Filter: s.filter("")}, search.Bounds{Found: 12, Scanned: 1000}, func(part int) {
		if part == 2 { // within b
			if err := s.inspector.DeleteQueue("b", true); err != nil {
				t.Fatal(err)
			}
		}
	})
	count := map[string]int{}
	for _, name := range found {
		count[name]++
	}
	for _, name := range stays {
		if count[name] != 1 {
			t.Errorf("%s is found %d times", name, count[name])
		}
	}
}

func TestCursorIsOfOneSearch(t *testing.T) {
	s := newSite(t)
	s.put("a", 10)
	q := &search.Search{Filter: s.filter("")}
	part, err := q.Part(t.Context(), s.inspector, "", search.Bounds{Found: 3, Scanned: 100})
	if err != nil || part.Next == "" {
		t.Fatal(part, err)
	}
	for name, c := range map[string]struct {
		search search.Search
		cursor string
	}{
		"other filter": {search.Search{Filter: s.filter("type:odd")}, part.Next},
		"other queues": {search.Search{Filter: s.filter(""), Queues: []string{"a"}}, part.Next},
		"other states": {search.Search{Filter: s.filter(""), States: []asynq.TaskState{asynq.TaskStatePending}}, part.Next},
		"half":         {*q, part.Next[:len(part.Next)/2]},
		"nonsense":     {*q, "a/b c"},
	} {
		if _, err := c.search.Part(t.Context(), s.inspector, c.cursor, wide); !errors.Is(err, asynq.ErrCursor) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestTimeEndsAPart(t *testing.T) {
	s := newSite(t)
	s.put("a", 10)
	s.put("b", 10)
	part, err := (&search.Search{Filter: s.filter("")}).Part(t.Context(), s.inspector, "", search.Bounds{Found: 100, Scanned: 100, Time: 1})
	if err != nil || part.Scanned != 10 || part.Next == "" || part.Total != 20 {
		t.Errorf("%+v, error %v", part, err)
	}
}

func TestBrokenQueuesAreTold(t *testing.T) {
	s := newSite(t)
	s.put("a", 2)
	s.put("b", 2)
	s.redis.Del("asynq:{a}:pending")
	if err := s.redis.Set("asynq:{a}:pending", "x"); err != nil {
		t.Fatal(err)
	}
	q := &search.Search{Filter: s.filter("")}
	part, err := q.Part(t.Context(), s.inspector, "", wide)
	if err != nil || part.Found != 2 || len(part.Errors) != 1 || part.Errors[0].Queue != "a" {
		t.Errorf("%+v, error %v", part, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := q.Part(ended, s.inspector, "", wide); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
