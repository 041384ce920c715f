package browser_test

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
)

// quick is the maximum time of the server for a page, regardless of the number of tasks.
const quick = 300 * time.Millisecond

// All pages of a queue with a million tasks are fast. The test runs alone, so that it does not
// measure other tests.
func TestManyTasks(t *testing.T) {
	s := serve(t, asynq.RedisClientOpt{Addr: proctest.StartRedis(t).Addr()})
	began := time.Now()
	s.fill(t, many, asynq.Queue("large"))
	s.fill(t, many/5, asynq.Queue("planned"), asynq.ProcessIn(time.Hour))
	t.Logf("enqueueing %d tasks took %v", many+many/5, time.Since(began).Round(time.Millisecond))
	s.knows(t, "large", "planned")

	pending := q("/tasks", "queue", "large", "state", "pending")
	planned := q("/tasks", "queue", "planned", "state", "scheduled")
	paths := map[string]string{
		"overview": "/", "queue": q("/queue", "queue", "large"),
		"first page": pending, "first page of scheduled": planned,
		"fifth page": s.next(t, pending, "next", 4), "last page": s.next(t, pending, "Last", 1),
		"fifth page of scheduled": s.next(t, planned, "next", 4), "last page of scheduled": s.next(t, planned, "Last", 1),
		"filter": q("/tasks", "queue", "large", "state", "pending", "filter", "type:email:*"),
	}
	b := open(t, s.url)
	for name, path := range paths {
		plain, seen := timeout, timeout // the fastest of some requests: other load only slows them down
		for range 5 {
			asked := time.Now()
			if status, _ := s.get(t, path); status != 200 {
				t.Fatalf("%s answers %d", path, status)
			}
			plain = min(plain, time.Since(asked))
			b.visit(path)
			seen = min(seen, time.Duration(eval[float64](b, `(({responseStart, requestStart}) => responseStart - requestStart)(performance.getEntriesByType("navigation")[0])`)*1e6))
		}
		t.Logf("%s: %v, and %v to the browser", name, plain.Round(100*time.Microsecond), seen.Round(100*time.Microsecond))
		if plain > quick || seen > quick {
			t.Errorf("%s takes %v, and %v to the browser", name, plain, seen)
		}
	}
}

// fill enqueues many tasks.
func (s *site) fill(t *testing.T, n int, opts ...asynq.Option) {
	t.Helper()
	tasks := make([]*asynq.Task, 2000)
	for done := 0; done < n; done += len(tasks) {
		for k := range tasks {
			typename := "email:welcome"
			if k%50 == 0 {
				typename = "report:monthly"
			}
			tasks[k] = asynq.NewTask(typename, fmt.Appendf(nil, `{"user_id":%d}`, done+k), opts...)
		}
		for _, result := range s.client.BatchEnqueueContext(t.Context(), tasks) {
			if result.Err != nil {
				t.Fatal(result.Err)
			}
		}
	}
}

var hrefs = regexp.MustCompile(`<a [^>]*href="([^"]+)"[^>]*>([^<]*)`)

// next follows a link of a page repeatedly: the link with a word in its text or rel.
func (s *site) next(t *testing.T, path, word string, times int) string {
	t.Helper()
	for range times {
		_, page := s.get(t, path)
		found := ""
		for _, m := range hrefs.FindAllStringSubmatch(page, -1) {
			if m[2] == word || strings.Contains(m[0], `rel="`+word+`"`) {
				found = strings.ReplaceAll(m[1], "&amp;", "&")
			}
		}
		if _, err := url.Parse(found); found == "" || err != nil {
			t.Fatalf("%s has no link %q: %q, %v", path, word, found, err)
		}
		path = found
	}
	return path
}
