package redistest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// Lease is how long the leases of Fetch are.
const Lease = 30 * time.Second

// Message returns the message of a task.
func Message(queue, id string) *wire.TaskMessage {
	return &wire.TaskMessage{Type: "test", Payload: []byte("payload"), ID: id, Queue: queue, MaxRetry: 25, Timeout: 1800}
}

// Encode returns the message as stored in Redis.
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

// Enqueue makes n tasks that wait in pending, and returns their IDs. The first one that the test
// makes is t1, and so on.
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

// Fetch makes the n oldest pending tasks active. The token of the test's first fetch is f1, and so
// on. That there are fewer than n tasks ends the test.
func (r *Redis) Fetch(t testing.TB, queue string, n int) *rdb.Fetch {
	t.Helper()
	r.fetches++
	f := &rdb.Fetch{Queue: queue, N: n, Token: fmt.Sprintf("f%d", r.fetches), Lease: Lease, Mark: true}
	r.Broker().RoundTrip(context.Background(), &rdb.RoundTrip{Fetch: []*rdb.Fetch{f}})
	if f.Err != nil || len(f.Tasks) != n {
		t.Fatalf("fetched %d tasks of %d, code %d, error %v", len(f.Tasks), n, f.Code, f.Err)
	}
	return f
}

// Settle ends an attempt and returns the answer. The task's lock is what its hash says.
func Settle(t *testing.T, b *rdb.Broker, s rdb.Settlement) script.Code {
	t.Helper()
	s.Queue = "q"
	s.Lock, _ = b.Client().HGet(context.Background(), b.Keys("q").Task(s.ID), "unique_key").Result() // none, if there is no such task
	b.RoundTrip(context.Background(), &rdb.RoundTrip{Settle: []*rdb.Settlement{&s}})
	if s.Err != nil {
		t.Fatalf("%v of %q: %v", s.Outcome, s.ID, s.Err)
	}
	return s.Code
}

// Fetch makes one fetch from queue q, which leaves the marker, and returns it with the answer.
// Without a token and a lease it gets those of redistest.
func Fetch(t *testing.T, b *rdb.Broker, f rdb.Fetch) *rdb.Fetch {
	t.Helper()
	f.Queue, f.Mark = "q", true
	if f.Token == "" {
		f.Token = "f"
	}
	if f.Lease == 0 {
		f.Lease = Lease
	}
	b.RoundTrip(context.Background(), &rdb.RoundTrip{Fetch: []*rdb.Fetch{&f}})
	return &f
}

// Reclaim reclaims a fetch from queue q, and returns the number of tasks that it returned to
// pending.
func Reclaim(t *testing.T, b *rdb.Broker, token string) int {
	t.Helper()
	u := &rdb.Reclaim{Queue: "q", Token: token}
	for turns := 0; ; turns++ {
		b.RoundTrip(context.Background(), &rdb.RoundTrip{Reclaim: []*rdb.Reclaim{u}})
		if u.Err != nil || turns > 1000 {
			t.Fatalf("undo after %d turns: cursor %s, error %v", turns, u.Cursor, u.Err)
		}
		if u.Done() {
			return u.Returned
		}
	}
}

// FailedMessage returns the message of a task of queue q after one failed attempt.
func FailedMessage(t *testing.T, id string) []byte {
	t.Helper()
	m := Message("q", id)
	m.Retried, m.LastErr, m.LastFailedAt = 1, "boom", time.Now().Unix()
	return Encode(t, m)
}

// IDs are the IDs of fetched tasks.
func IDs(f *rdb.Fetch) []string {
	var ids []string
	for _, t := range f.Tasks {
		ids = append(ids, t.ID)
	}
	return ids
}

// Lock gives a task a uniqueness lock.
func Lock(task *rdb.NewTask, name string) *rdb.NewTask {
	task.Lock, task.LockTTL = "asynq:{q}:unique:test:"+name, 60
	return task
}

// SeedStates makes t1 pending, t2 active, t3 scheduled, t4 in retry, t5 archived, t6 completed,
// t7 aggregating in group g, and t8 pending with a lock.
func SeedStates(t *testing.T, r *Redis) {
	t.Helper()
	ctx := context.Background()
	b := r.Broker()
	keys := b.Keys("q")

	for _, id := range []string{"t4", "t5", "t6"} {
		r.Make(t, NewTask(t, "q", id))
	}
	f := r.Fetch(t, "q", 3)
	settlements := make([]*rdb.Settlement, 0, 3)
	for i, outcome := range []rdb.Outcome{rdb.Retry, rdb.Archive, rdb.Complete} {
		settlements = append(settlements, &rdb.Settlement{
			Queue: "q", ID: f.Tasks[i].ID, Token: f.Token, Outcome: outcome, Message: f.Tasks[i].Message,
			Delay: time.Minute, Retention: 60,
		})
	}
	b.RoundTrip(ctx, &rdb.RoundTrip{Settle: settlements})
	for _, s := range settlements {
		if s.Err != nil || s.Code != script.CodeOK {
			t.Fatalf("%v of %s: code %d, error %v", s.Outcome, s.ID, s.Code, s.Err)
		}
	}

	r.Make(t, NewTask(t, "q", "t2"))
	r.Fetch(t, "q", 1)

	scheduled := NewTask(t, "q", "t3")
	scheduled.ProcessAt = time.Now().Add(time.Hour).Unix()
	grouped := NewTask(t, "q", "t7")
	grouped.Group = "g"
	locked := NewTask(t, "q", "t8")
	locked.Lock, locked.LockTTL = keys.Unique("test", []byte("8")), 60
	r.Make(t, NewTask(t, "q", "t1"), scheduled, grouped, locked)
}

// ExpireLeases makes the leases of tasks expire some time ago, in the order of ids.
func ExpireLeases(t *testing.T, r *Redis, ago time.Duration, ids ...string) {
	t.Helper()
	end := time.Now().Add(-ago).Unix()
	for i, id := range ids {
		Must(t, r.Client().ZAddXX(context.Background(), "asynq:{q}:lease", redis.Z{Score: float64(end + int64(i)), Member: id}))
	}
}

// Forward moves due tasks of queue q.
func Forward(t *testing.T, b *rdb.Broker) rdb.Due {
	t.Helper()
	due := b.Forward(context.Background(), []string{"q"}, nil)
	if len(due) != 1 || due[0].Queue != "q" || due[0].Err != nil {
		t.Fatalf("forward: %+v", due)
	}
	return due[0]
}
