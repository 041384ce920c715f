package rdb_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/inspect"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

// A Redis at its maxmemory limit refuses new tasks and stores no part of them. Existing tasks
// continue to run.
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
	f := redistest.Fetch(t, b, rdb.Fetch{N: 6})
	if f.Err != nil || len(f.Tasks) != 6 {
		t.Fatalf("%+v", f)
	}
	redistest.Must(t, client.ConfigSet(ctx, "maxmemory", "1"))

	before := redistest.Dump(t, client)
	for name, change := range map[string]func(*rdb.NewTask){
		"pending":   func(*rdb.NewTask) {},
		"scheduled": func(n *rdb.NewTask) { n.ProcessAt = time.Now().Add(time.Hour).Unix() },
		"grouped":   func(n *rdb.NewTask) { n.Group = "g" },
		"moded":     func(n *rdb.NewTask) { n.Mode = &rdb.Mode{Policy: rdb.Replace} },
		"keyed":     func(n *rdb.NewTask) { n.Mode = &rdb.Mode{Key: "k", TTL: 60} },
	} {
		task := redistest.Lock(redistest.NewTask(t, "q", "new"), "new")
		change(task)
		b.Enqueue(ctx, task)
		if !script.IsFull(task.Err) || !script.Refused(task.Err) {
			t.Errorf("%s: a new task gets the error %v", name, task.Err)
		}
	}
	if err := b.WriteResult(ctx, "q", "t0", "f", []byte("result")); !script.IsFull(err) {
		t.Errorf("a result gets the error %v", err)
	}
	progress := &rdb.ResultWrite{Queue: "q", ID: "t0", Token: "f", Result: []byte("half")}
	if b.WriteProgress(ctx, []*rdb.ResultWrite{progress}); !script.IsFull(progress.Err) {
		t.Errorf("progress gets the error %v", progress.Err)
	}
	update := &inspect.Update{Queue: "q", ID: "t7", Edit: func(*wire.TaskMessage) error { return nil }, Reschedule: true, At: 1}
	if err := inspect.New(b).Update(ctx, update); !script.IsFull(err) {
		t.Errorf("an update gets the error %v", err)
	}
	for name, task := range kindsOfTask(t) {
		tick := *task
		tick.Tick = &rdb.Tick{Entry: "e", At: 1000, Deadline: soon()}
		if b.Enqueue(ctx, &tick); !script.IsFull(tick.Err) {
			t.Errorf("%s: a tick gets the error %v", name, tick.Err)
		}
	}
	redistest.WantLines(t, redistest.Dump(t, client), strings.Join(before, "\n"))
	if l := lead(t, b, "a", groupLease); !l.Leads {
		t.Errorf("lead: %+v", l)
	}
	releaseLeadership(t, b, "a")
	memory := &rdb.TickRecord{Entry: "e", Queue: "q", Seed: 5}
	if b.LoadTickRecord(ctx, memory); memory.Err != nil || memory.Last != 5 {
		t.Errorf("recall: %+v", memory)
	}

	msg := func(id string) []byte { return redistest.FailedMessage(t, id) }
	held := []rdb.Held{{ID: "t0", Token: "f"}}
	if b.Extend(ctx, "q", time.Minute, held); held[0].Err != nil || held[0].Code != script.CodeOK {
		t.Errorf("extend: %+v", held[0])
	}
	for _, s := range []rdb.Settlement{
		{ID: "t0", Outcome: rdb.Done},
		{ID: "t1", Outcome: rdb.Complete, Message: msg("t1"), Retention: 60},
		{ID: "t2", Outcome: rdb.Retry, Message: msg("t2"), Delay: time.Minute, Extra: logged(3, 1)},
		{ID: "t3", Outcome: rdb.Archive, Message: msg("t3")},
		{ID: "t4", Outcome: rdb.Requeue},
	} {
		s.Token = "f"
		if code := redistest.Settle(t, b, s); code != script.CodeOK {
			t.Errorf("%v: code %d", s.Outcome, code)
		}
	}
	redistest.Must(t, client.ZRem(ctx, "asynq:{q}:lease", "t5")) // no lease counts as ended
	item := &rdb.Settlement{Queue: "q", Outcome: rdb.Requeue, ID: "t5", Token: "f", Message: msg("t5"), Failed: true}
	if b.Recover(ctx, []*rdb.Settlement{item}); item.Err != nil || item.Code != script.CodeOK {
		t.Errorf("recover: %+v", item)
	}
	if due := redistest.Forward(t, b); due.Moved != 1 {
		t.Errorf("forward: %+v", due)
	}
	if f := redistest.Fetch(t, b, rdb.Fetch{N: 5, Token: "second"}); f.Err != nil || len(f.Tasks) != 5 {
		t.Errorf("fetch: %+v", f)
	}
	if n := redistest.Reclaim(t, b, "second"); n != 5 {
		t.Errorf("reclaimed %d tasks", n)
	}
	if n, err := b.Purge(ctx, "q", wire.StateCompleted, 10); err != nil || n != 0 {
		t.Errorf("expire: %d, error %v", n, err)
	}
	if _, err := b.Purge(ctx, "q", wire.StateArchived, 10); err != nil {
		t.Errorf("trim: %v", err)
	}
	redistest.Must(t, client.ConfigSet(ctx, "maxmemory", "0"))
	redistest.CheckServer(t, client)
}

// A full Redis does not turn a successful call whose reply was lost into an error.
func TestFullRedisRepeatsReply(t *testing.T) {
	t.Parallel()
	s := redistest.StartServer(t, "--maxmemory-policy", "noeviction")
	ctx, client := context.Background(), s.Client(t)
	b, recorded := redistest.RecordingBroker(t, &redistest.Redis{Addr: s.Addr()})
	task := redistest.NewTask(t, "q", "a")
	task.RandomID = true
	if b.Enqueue(ctx, task); task.Err != nil {
		t.Fatal(task.Err)
	}
	redistest.Must(t, client.ConfigSet(ctx, "maxmemory", "1"))
	before := redistest.Dump(t, client)
	call := recorded.Calls["enqueue"][0]
	codes, err := client.Do(ctx, append([]any{"evalsha", call.SHA, len(call.Keys)}, append(call.Keys, call.Args...)...)...).Int64Slice()
	if err != nil || len(codes) != 1 || codes[0] != int64(script.CodeOK) {
		t.Errorf("the same call again returns %v, error %v", codes, err)
	}
	redistest.WantLines(t, redistest.Dump(t, client), strings.Join(before, "\n"))
}
