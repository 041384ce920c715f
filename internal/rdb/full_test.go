package rdb_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
)

// A Redis that has reached its maxmemory refuses new tasks and leaves nothing of them, and goes on with those that it has.
func TestFullRedis(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t, "--maxmemory-policy", "noeviction")
	ctx, client := context.Background(), s.Client(t)
	b := rdb.New(client, "")
	var tasks []*rdb.NewTask
	for i := range 8 {
		tasks = append(tasks, redistest.NewTask(t, "q", fmt.Sprint("t", i)))
	}
	due := redistest.NewTask(t, "q", "due")
	due.ProcessAt = time.Now().Add(-time.Hour).Unix()
	b.Enqueue(ctx, append(tasks, due)...)
	f := fetch(t, b, rdb.Fetch{N: 6})
	if f.Err != nil || len(f.Tasks) != 6 {
		t.Fatalf("%+v", f)
	}
	must(t, client.ConfigSet(ctx, "maxmemory", "1"))

	before := redistest.Dump(t, client)
	for name, change := range map[string]func(*rdb.NewTask){
		"pending":   func(*rdb.NewTask) {},
		"scheduled": func(n *rdb.NewTask) { n.ProcessAt = time.Now().Add(time.Hour).Unix() },
		"grouped":   func(n *rdb.NewTask) { n.Group = "g" },
	} {
		task := lock(redistest.NewTask(t, "q", "new"), "new")
		change(task)
		b.Enqueue(ctx, task)
		if !rdb.IsFull(task.Err) || !rdb.Refused(task.Err) {
			t.Errorf("%s: a new task gets the error %v", name, task.Err)
		}
	}
	if err := b.WriteResult(ctx, "q", "t0", "f", []byte("result")); !rdb.IsFull(err) {
		t.Errorf("a result gets the error %v", err)
	}
	for name, task := range kindsOfTask(t) {
		if tick := tickOf(t, b, 1000, "new", func(k *rdb.Tick) { k.Task = task }); !rdb.IsFull(tick.Task.Err) {
			t.Errorf("%s: a tick gets the error %v", name, tick.Task.Err)
		}
	}
	wantLines(t, redistest.Dump(t, client), strings.Join(before, "\n"))
	if l := lead(t, b, "a", groupLease); !l.Leads {
		t.Errorf("lead: %+v", l)
	}
	abdicate(t, b, "a")
	memory := &rdb.TickMemory{Entry: "e", Queue: "q", Seed: 5}
	if b.RecallTick(ctx, memory); memory.Err != nil || memory.Last != 5 {
		t.Errorf("recall: %+v", memory)
	}

	msg := func(id string) []byte { return message(t, id) }
	held := []rdb.Held{{ID: "t0", Token: "f"}}
	if b.Extend(ctx, "q", time.Minute, held); held[0].Err != nil || held[0].Code != rdb.CodeOK {
		t.Errorf("extend: %+v", held[0])
	}
	for _, s := range []rdb.Settlement{
		{ID: "t0", Outcome: rdb.Done},
		{ID: "t1", Outcome: rdb.Complete, Message: msg("t1"), Retention: 60},
		{ID: "t2", Outcome: rdb.Retry, Message: msg("t2"), Delay: time.Minute, Failed: true},
		{ID: "t3", Outcome: rdb.Archive, Message: msg("t3"), Failed: true},
		{ID: "t4", Outcome: rdb.Requeue},
	} {
		s.Token = "f"
		if code := settle(t, b, s); code != rdb.CodeOK {
			t.Errorf("%v: code %d", s.Outcome, code)
		}
	}
	must(t, client.ZRem(ctx, "asynq:{q}:lease", "t5")) // no lease counts as ended
	item := &rdb.Recovery{ID: "t5", Token: "f", Message: msg("t5"), Failed: true}
	if b.Recover(ctx, "q", []*rdb.Recovery{item}); item.Err != nil || item.Code != rdb.CodeOK {
		t.Errorf("recover: %+v", item)
	}
	if due := forward(t, b); due.Moved != 1 {
		t.Errorf("forward: %+v", due)
	}
	if f := fetch(t, b, rdb.Fetch{N: 5, Token: "second"}); f.Err != nil || len(f.Tasks) != 5 {
		t.Errorf("fetch: %+v", f)
	}
	if n := undo(t, b, "second"); n != 5 {
		t.Errorf("undo of %d tasks", n)
	}
	if n, err := b.ExpireCompleted(ctx, "q", 10); err != nil || n != 0 {
		t.Errorf("expire: %d, error %v", n, err)
	}
	if _, err := b.TrimArchived(ctx, "q", 10); err != nil {
		t.Errorf("trim: %v", err)
	}
	must(t, client.ConfigSet(ctx, "maxmemory", "0"))
	checkServer(t, client)
}

// checkServer is the invariant check of a server of a test's own.
func checkServer(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	found, err := rdb.Check(context.Background(), client, "")
	if err != nil {
		t.Error(err)
	}
	for _, v := range found {
		t.Errorf("broken invariant: %v", v)
	}
}
