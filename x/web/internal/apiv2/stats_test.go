package apiv2

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
)

// Statistics have what servers recorded, of the selected queues.
func TestStats(t *testing.T) {
	s := newSite(t, nil)
	before := time.Now().Add(-time.Minute)
	for n := range 3 {
		s.enqueue("email:send", fmt.Sprint(n), asynq.Queue("mail"))
	}
	s.enqueue("report", "", asynq.MaxRetry(0))
	s.serve(func(_ context.Context, task *asynq.Task) error {
		if string(task.Payload()) != "1" {
			return nil
		}
		return errors.New("host is down")
	})
	var types TypeStatsList
	proctest.Eventually(t, "the attempts to be recorded", func() bool {
		types = TypeStatsList{}
		s.want(200, "GET", "/stats/types?queue=mail&queue=mail", "").into(&types)
		return len(types.Items) == 1 && types.Items[0].Attempts == 3
	})
	if got := types.Items[0]; got.Queue != "mail" || got.Type != "email:send" || got.Succeeded != 2 || got.Retried != 1 || got.Failed != 1 ||
		got.Duration == nil || got.Duration.Count != 3 || got.Wait == nil {
		t.Errorf("%+v", got)
	}
	proctest.Eventually(t, "both queues to be recorded", func() bool {
		types = TypeStatsList{}
		s.want(200, "GET", "/stats/types", "").into(&types)
		return len(types.Items) == 2
	})

	attempts := func(query string) (sum int64, sizes bool) {
		t.Helper()
		var list StatsHistory
		s.want(200, "GET", "/stats/history?from="+url.QueryEscape(before.Format(time.RFC3339))+query, "").into(&list)
		for _, p := range list.Items {
			sum += p.Attempts
			sizes = sizes || p.Sizes != nil
			if p.Length != 60 {
				t.Errorf("%+v", p)
			}
		}
		return sum, sizes
	}
	for query, want := range map[string]int64{"": 4, "&queue=mail": 3, "&queue=mail&queue=default": 4, "&type=email:send": 3, "&type=report&queue=mail": 0} {
		if got, _ := attempts(query); got != want {
			t.Errorf("%q: %d attempts, want %d", query, got, want)
		}
	}
	if _, sizes := attempts("&type=report"); sizes {
		t.Error("a type has sizes")
	}

	var kinds ErrorStatsList
	s.want(200, "GET", "/stats/errors", "").into(&kinds)
	if len(kinds.Items) != 1 || kinds.Items[0].Kind != "host is down" || kinds.Items[0].Type != "email:send" || kinds.Items[0].Count != 1 ||
		kinds.Items[0].First.Before(before.Truncate(time.Minute)) {
		t.Errorf("%+v", kinds)
	}

	for _, path := range []string{"types", "history", "errors"} {
		s.want(404, "GET", "/stats/"+path+"?queue=none", "")
		s.want(400, "GET", "/stats/"+path+"?from=yesterday", "")
		s.want(400, "GET", "/stats/"+path+"?to=2030-01-01", "")
		s.want(400, "GET", "/stats/"+path+"?from=2030-01-02T00:00:00Z&to=2030-01-01T00:00:00Z", "")
	}
	s.gate.refuse = "view"
	s.want(403, "GET", "/stats/types?queue=mail", "")
}
