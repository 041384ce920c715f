package rdb_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
)

// wantDump compares the whole database with lines as redistest.Dump prints them. Q: stands for the prefix of the keys of queue q,
// and the order of the lines does not matter.
func wantDump(t *testing.T, r *redistest.Redis, want string) {
	t.Helper()
	wantLines(t, r.Dump(t), want)
}

func wantLines(t *testing.T, got []string, want string) {
	t.Helper()
	lines := []string{}
	for line := range strings.Lines(want) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, strings.ReplaceAll(line, "Q:", "asynq:{q}:"))
		}
	}
	slices.Sort(lines)
	if diff := cmp.Diff(lines, got); diff != "" {
		t.Errorf("Redis holds (-want +got):\n%s", diff)
	}
}

// unchanged runs f and reports an error if it changes anything in the database.
func unchanged(t *testing.T, r *redistest.Redis, what string, f func()) {
	t.Helper()
	before := r.Dump(t)
	f()
	if diff := cmp.Diff(before, r.Dump(t)); diff != "" {
		t.Errorf("%s changed what Redis holds (-before +after):\n%s", what, diff)
	}
}

// settle ends an attempt and returns the answer. The task's lock is what its hash says.
func settle(t *testing.T, b *rdb.Broker, s rdb.Settlement) rdb.Code {
	t.Helper()
	s.Queue = "q"
	s.Lock, _ = b.Client().HGet(context.Background(), b.Keys("q").Task(s.ID), "unique_key").Result() // none, if there is no such task
	b.Turn(context.Background(), &rdb.Turn{Settle: []*rdb.Settlement{&s}})
	if s.Err != nil {
		t.Fatalf("%v of %q: %v", s.Outcome, s.ID, s.Err)
	}
	return s.Code
}

// fetch makes one fetch from queue q, which leaves the marker, and returns it with the answer. Without a token and a lease it gets those
// of redistest.
func fetch(t *testing.T, b *rdb.Broker, f rdb.Fetch) *rdb.Fetch {
	t.Helper()
	f.Queue, f.Mark = "q", true
	if f.Token == "" {
		f.Token = "f"
	}
	if f.Lease == 0 {
		f.Lease = redistest.Lease
	}
	b.Turn(context.Background(), &rdb.Turn{Fetch: []*rdb.Fetch{&f}})
	return &f
}

// undo undoes a fetch from queue q and returns how many tasks it put back.
func undo(t *testing.T, b *rdb.Broker, token string) int {
	t.Helper()
	u := &rdb.Undo{Queue: "q", Token: token}
	for turns := 0; ; turns++ {
		b.Turn(context.Background(), &rdb.Turn{Undo: []*rdb.Undo{u}})
		if u.Err != nil || turns > 1000 {
			t.Fatalf("undo after %d turns: cursor %s, error %v", turns, u.Cursor, u.Err)
		}
		if u.Done() {
			return u.Back
		}
	}
}

// message is the message of a task of queue q after one failed attempt.
func message(t *testing.T, id string) []byte {
	t.Helper()
	m := redistest.Message("q", id)
	m.Retried, m.LastErr, m.LastFailedAt = 1, "boom", time.Now().Unix()
	return redistest.Encode(t, m)
}

// ids are the IDs of fetched tasks.
func ids(f *rdb.Fetch) []string {
	var ids []string
	for _, t := range f.Tasks {
		ids = append(ids, t.ID)
	}
	return ids
}

// lock gives a task a uniqueness lock.
func lock(task *rdb.NewTask, name string) *rdb.NewTask {
	task.Lock, task.LockTTL = "asynq:{q}:unique:test:"+name, 60
	return task
}
