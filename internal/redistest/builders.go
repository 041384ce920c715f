package redistest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
)

// Lease is how long the leases of Fetch are.
const Lease = 30 * time.Second

// Message returns the message of a task.
func Message(queue, id string) *wire.TaskMessage {
	return &wire.TaskMessage{Type: "test", Payload: []byte("payload"), ID: id, Queue: queue, MaxRetry: 25, Timeout: 1800}
}

// Encode returns the message as it stands in Redis.
func Encode(t testing.TB, m *wire.TaskMessage) []byte {
	t.Helper()
	b, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// NewTask returns a task to be enqueued with the message Message(queue, id).
func NewTask(t testing.TB, queue, id string) *rdb.NewTask {
	t.Helper()
	return &rdb.NewTask{ID: id, Queue: queue, Message: Encode(t, Message(queue, id))}
}

// Enqueue makes n tasks that wait in pending, and returns their IDs. The first one that the test makes is t1, and so on.
func (r *Redis) Enqueue(t testing.TB, queue string, n int) []string {
	t.Helper()
	ids := make([]string, n)
	tasks := make([]*rdb.NewTask, n)
	for i := range tasks {
		r.made++
		ids[i] = fmt.Sprintf("t%d", r.made)
		tasks[i] = NewTask(t, queue, ids[i])
	}
	r.Make(t, tasks...)
	return ids
}

// Make enqueues tasks. That one is refused ends the test.
func (r *Redis) Make(t testing.TB, tasks ...*rdb.NewTask) {
	t.Helper()
	r.Broker().Enqueue(context.Background(), tasks...)
	for _, task := range tasks {
		if task.Err != nil {
			t.Fatalf("enqueue of %q: %v", task.ID, task.Err)
		}
	}
}

// Fetch makes the n oldest pending tasks active. The token of the test's first fetch is f1, and so on. That there are fewer than n
// tasks ends the test.
func (r *Redis) Fetch(t testing.TB, queue string, n int) *rdb.Fetch {
	t.Helper()
	r.fetches++
	f := &rdb.Fetch{Queue: queue, N: n, Token: fmt.Sprintf("f%d", r.fetches), Lease: Lease, Mark: true}
	r.Broker().Turn(context.Background(), &rdb.Turn{Fetch: []*rdb.Fetch{f}})
	if f.Err != nil || len(f.Tasks) != n {
		t.Fatalf("fetched %d tasks of %d, code %d, error %v", len(f.Tasks), n, f.Code, f.Err)
	}
	return f
}
