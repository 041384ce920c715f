package apiv2

import (
	"fmt"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/poll"
)

// Each of many queues has its own rate and verdicts, in linear time.
func TestManyQueues(t *testing.T) {
	const n = 5000
	snapshot := &poll.Snapshot{At: time.Now()}
	for i := range n {
		name := fmt.Sprintf("q%04d", i)
		snapshot.Queues = append(snapshot.Queues, poll.Queue{Name: name, Info: &asynq.QueueInfo{Queue: name, Pending: i}, Rate: poll.Rate{Known: true, Processed: float64(i)}})
		snapshot.Health = append(snapshot.Health, poll.Verdict{Severity: poll.Warning, Queue: name, Kind: "no-worker", Text: name})
	}
	s := newSite(t, func(c *Config) { c.Poller = &poller{snapshot: snapshot} })
	began := time.Now()
	var list QueueList
	s.want(200, "GET", "/queues", "").into(&list)
	t.Log(time.Since(began))
	if len(list.Items) != n {
		t.Fatalf("%d queues", len(list.Items))
	}
	for i, q := range list.Items {
		if q.Tasks.Pending != i || q.Rate.Processed != float64(i) || len(q.Health) != 1 || q.Health[0].Text != q.Queue {
			t.Fatalf("%+v", q)
		}
	}
}
