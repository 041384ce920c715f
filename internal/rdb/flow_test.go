package rdb_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/inspect"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/script"
	"github.com/asynq-go/asynq/internal/wire"
)

var rows = wire.FlowPart{Run: "r", Node: "rows", Flow: "f"}

// createRows creates members of rows, with the IDs m1, m2 and so on.
func createRows(t *testing.T, b *rdb.Broker, chunk string, first, last int) *rdb.Members {
	t.Helper()
	m := &rdb.Members{Queue: "q", Part: rows, Chunk: chunk}
	for i := first; i <= last; i++ {
		msg := redistest.Message("q", fmt.Sprint("m", i))
		msg.SetFlowPart(rows, false)
		m.Tasks = append(m.Tasks, &rdb.NewTask{ID: msg.ID, Queue: "q", Message: redistest.Encode(t, msg)})
	}
	b.CreateMembers(context.Background(), m)
	return m
}

func readRows(t *testing.T, b *rdb.Broker, compare rdb.Compare) *rdb.PartState {
	t.Helper()
	p := &rdb.PartState{Queue: "q", Part: rows, Compare: compare}
	b.ReadParts(context.Background(), p)
	redistest.NoError(t, p.Err)
	return p
}

// wantRows requires the counters of rows.
func wantRows(t *testing.T, p *rdb.PartState, want string) {
	t.Helper()
	got := fmt.Sprintf("made %d, open %d, succeeded %d, failed %d, deleted %d", p.Made, p.Open, p.Succeeded, p.Failed, p.Deleted)
	if got != want {
		t.Errorf("the part has %s, want %s", got, want)
	}
}

// settleRow settles a member that is active under the token f.
func settleRow(t *testing.T, b *rdb.Broker, id string, outcome rdb.Outcome) {
	t.Helper()
	redistest.Settle(t, b, rdb.Settlement{
		ID: id, Token: "f", Outcome: outcome, Retention: 60, Member: &rdb.Member{Part: rows.String()},
	})
}

// The tasks of a plan are created once, also if the call is repeated after they are gone.
func TestCreateMembersOnce(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		b := r.Broker()
		for i := range 2 {
			m := createRows(t, b, "0", 1, 2)
			redistest.NoError(t, m.Err)
			if m.Repeated != (i == 1) {
				t.Errorf("call %d: repeated %v", i, m.Repeated)
			}
			if i == 0 {
				redistest.Fetch(t, b, rdb.Fetch{N: 2})
				settleRow(t, b, "m1", rdb.Done)
				settleRow(t, b, "m2", rdb.Done)
			}
		}
		wantRows(t, readRows(t, b, rdb.CompareNone), "made 2, open 0, succeeded 2, failed 0, deleted 0")
		redistest.NoError(t, createRows(t, b, "", 3, 3).Err)
		if has, err := b.ClosePart(context.Background(), "q", rows); !has || err != nil {
			t.Errorf("closing the part: %v, %v", has, err)
		}
		for _, chunk := range []string{"", "1"} {
			if m := createRows(t, b, chunk, 4, 4); !errors.Is(m.Err, rdb.ErrPartClosed) {
				t.Errorf("adding to a closed part: %v", m.Err)
			}
		}
		wantRows(t, readRows(t, b, rdb.CompareNone), "made 3, open 1, succeeded 2, failed 0, deleted 0")
	})
}

// Each end of a member counts once: settled twice, archived and run again, deleted, completed by a
// process that knows no flows, in any order with comparisons.
func TestMemberEnds(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		in := inspect.New(b)
		redistest.NoError(t, createRows(t, b, "0", 1, 8).Err)
		redistest.Fetch(t, b, rdb.Fetch{N: 7})
		for range 2 { // the second one of each is rejected
			settleRow(t, b, "m1", rdb.Done)
			settleRow(t, b, "m2", rdb.Complete)
			settleRow(t, b, "m3", rdb.Archive)
			settleRow(t, b, "m4", rdb.Discard)
			settleRow(t, b, "m5", rdb.Expire)
			settleRow(t, b, "m6", rdb.Retry) // no end: it is pending again
			wantRows(t, readRows(t, b, rdb.CompareAll), "made 8, open 3, succeeded 2, failed 1, deleted 2")
		}
		// m7 is settled by a process of another library, m8 is deleted.
		redistest.Settle(t, b, rdb.Settlement{ID: "m7", Token: "f", Outcome: rdb.Complete, Retention: 60})
		change := func(verb inspect.Verb, id string) {
			t.Helper()
			codes, err := in.Change(ctx, inspect.Change{Queue: "q", Verb: verb}, []string{id})
			if err != nil || codes[0] != script.CodeOK {
				t.Fatalf("%s %s: %v, %v", verb, id, codes, err)
			}
		}
		wantRows(t, readRows(t, b, rdb.CompareDue), "made 8, open 3, succeeded 2, failed 1, deleted 2") // not due
		change(inspect.Delete, "m8")
		wantRows(t, readRows(t, b, rdb.CompareDue), "made 8, open 1, succeeded 3, failed 1, deleted 3") // the change made it due
		b.Checked(ctx, time.Hour, readRows(t, b, rdb.CompareNone))
		change(inspect.Run, "m3")
		wantRows(t, readRows(t, b, rdb.CompareDue), "made 8, open 2, succeeded 3, failed 0, deleted 3")
		redistest.Fetch(t, b, rdb.Fetch{N: 2})
		settleRow(t, b, "m3", rdb.Archive)
		settleRow(t, b, "m6", rdb.Done)
		wantRows(t, readRows(t, b, rdb.CompareNone), "made 8, open 0, succeeded 4, failed 1, deleted 3")
		change(inspect.Run, "m3")
		redistest.Fetch(t, b, rdb.Fetch{N: 1})
		settleRow(t, b, "m3", rdb.Done) // no comparison since it ran again
		wantRows(t, readRows(t, b, rdb.CompareAll), "made 8, open 0, succeeded 5, failed 0, deleted 3")
	})
}

// The result of the only task of a node is kept, whether the handler wrote it before or with the
// outcome.
func TestMemberResult(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		for i, kept := range []string{"settled", "written"} {
			id := fmt.Sprint("m", i+1)
			redistest.NoError(t, createRows(t, b, fmt.Sprint(i), i+1, i+1).Err)
			redistest.Fetch(t, b, rdb.Fetch{N: 1})
			s := rdb.Settlement{ID: id, Token: "f", Outcome: rdb.Done, Member: &rdb.Member{Part: rows.String(), Only: true}}
			if kept == "settled" {
				s.Result = []byte(kept)
			} else {
				b.WriteResults(ctx, []*rdb.ResultWrite{{Queue: "q", ID: id, Token: "f", Result: []byte(kept)}})
			}
			if code := redistest.Settle(t, b, s); code != script.CodeOK {
				t.Errorf("settled: %v", code)
			}
			if got := r.Client().HGet(ctx, b.Keys("q").FlowPart(rows), "result").Val(); got != kept {
				t.Errorf("the result is %q, want %q", got, kept)
			}
		}
	})
}

// A client that waits for the end of a task gets a reply with the outcome and the result.
func TestReplies(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		r.Enqueue(t, "q", 3)
		tasks := redistest.IDs(redistest.Fetch(t, b, rdb.Fetch{N: 3}))
		r.Client().HSet(ctx, b.Keys("q").Task(tasks[1]), "awaited_by", "d e")
		for i, o := range []rdb.Outcome{rdb.Complete, rdb.Archive, rdb.Retry} {
			redistest.Settle(t, b, rdb.Settlement{
				ID: tasks[i], Token: "f", Outcome: o, Retention: 60, Delay: time.Hour, Result: []byte("a result"), Member: &rdb.Member{Client: "c"},
			})
		}
		for client, want := range map[string]string{
			"c": fmt.Sprintf("[%d succeeded %sa result %d failed %s]", len(tasks[0]), tasks[0], len(tasks[1]), tasks[1]),
			"d": fmt.Sprintf("[%d failed %s]", len(tasks[1]), tasks[1]), "e": fmt.Sprintf("[%d failed %s]", len(tasks[1]), tasks[1]),
		} {
			if got := fmt.Sprint(r.Client().LRange(ctx, b.Keys("q").Replies(client), 0, -1).Val()); got != want {
				t.Errorf("client %s gets %s, want %s", client, got, want)
			}
		}
	})
}
