package script_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/inspect"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
)

// scripted returns one reply for every script call without sending it. Other commands that count
// return a positive number, and those that list return nothing.
type scripted struct {
	reply any
	left  int // calls until Redis is gone: a reply may say again and again that there is more
}

var errGone = errors.New("no more answers")

func (s *scripted) DialHook(redis.DialHook) redis.DialHook {
	return func(context.Context, string, string) (net.Conn, error) { return nil, errGone }
}

func (s *scripted) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error { return s.answer(cmd) }
}

func (s *scripted) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) (first error) {
		for _, cmd := range cmds {
			if err := s.answer(cmd); first == nil {
				first = err
			}
		}
		return first
	}
}

func (s *scripted) answer(cmd redis.Cmder) error {
	if s.left--; s.left < 0 {
		cmd.SetErr(errGone)
		return errGone
	}
	switch cmd := cmd.(type) {
	case interface{ SetVal(val any) }:
		cmd.SetVal(s.reply)
	case *redis.IntCmd:
		cmd.SetVal(1)
	}
	return nil
}

// replyReaders are calls whose scripts return more than a code.
var replyReaders = []func(ctx context.Context, b *rdb.Broker) error{
	func(ctx context.Context, b *rdb.Broker) error {
		_, err := inspect.New(b).TaskInfo(ctx, "q", "a")
		return err
	},
	func(ctx context.Context, b *rdb.Broker) error {
		_, errs := inspect.New(b).Stats(ctx, []string{"q"})
		return errs[0]
	},
	func(ctx context.Context, b *rdb.Broker) error {
		_, errs := inspect.New(b).Memory(ctx, []string{"q"}, []*inspect.QueueStats{{}}, 10)
		return errs[0]
	},
	func(ctx context.Context, b *rdb.Broker) error {
		_, err := inspect.New(b).Groups(ctx, "q")
		return err
	},
	func(ctx context.Context, b *rdb.Broker) error {
		_, err := inspect.New(b).ListTasks(ctx, "q", wire.StatePending, "", 0, 10, false)
		return err
	},
	func(ctx context.Context, b *rdb.Broker) error {
		_, err := inspect.New(b).ListTasks(ctx, "q", wire.StateCompleted, "", 0, 1000, true)
		return err
	},
	walkOnce(wire.StatePending), walkOnce(wire.StateScheduled), walkOnce(wire.StateAggregating),
	func(ctx context.Context, b *rdb.Broker) error {
		_, _, err := b.Stage(ctx, "q", rdb.GroupRule{})
		return err
	},
	func(ctx context.Context, b *rdb.Broker) error { _, _, _, err := b.Expired(ctx, "q", 0, 10); return err },
	func(ctx context.Context, b *rdb.Broker) error { return b.Forward(ctx, []string{"q"}, nil)[0].Err },
	func(ctx context.Context, b *rdb.Broker) error {
		_, err := b.AcquireLeadership(ctx, "g", "p", time.Minute)
		return err
	},
	func(ctx context.Context, b *rdb.Broker) error {
		m := &rdb.TickRecord{Entry: "e", Queue: "q"}
		b.LoadTickRecord(ctx, m)
		return m.Err
	},
	func(ctx context.Context, b *rdb.Broker) error {
		task := &rdb.NewTask{ID: "a", Queue: "q", Tick: &rdb.Tick{Entry: "e"}}
		b.Enqueue(ctx, task)
		return task.Err
	},
	func(ctx context.Context, b *rdb.Broker) error {
		f := &rdb.Fetch{Queue: "q", N: 10, Token: "f", Lease: time.Minute}
		b.RoundTrip(ctx, &rdb.RoundTrip{Fetch: []*rdb.Fetch{f}})
		return f.Err
	},
	func(ctx context.Context, b *rdb.Broker) error {
		f := &rdb.Fetch{Queue: "q", N: 10, Token: "f", Lease: time.Minute}
		s := &rdb.Settlement{Queue: "q", ID: "a", Token: "e", Outcome: rdb.Done}
		u := &rdb.Reclaim{Queue: "q", Token: "d"}
		b.RoundTrip(ctx, &rdb.RoundTrip{Settle: []*rdb.Settlement{s}, Fetch: []*rdb.Fetch{f}, Reclaim: []*rdb.Reclaim{u}})
		return errors.Join(f.Err, s.Err, u.Err)
	},
	func(ctx context.Context, b *rdb.Broker) error {
		set := &rdb.StagedSet{Queue: "q", Group: "g", Key: "asynq:{q}:g:g:u", Size: 3}
		b.ReadSets(ctx, "q", []*rdb.StagedSet{set})
		return set.Err
	},
	func(ctx context.Context, b *rdb.Broker) error {
		_, err := inspect.New(b).Change(ctx, inspect.Change{Verb: inspect.Run, Queue: "q"}, []string{"a", "b"})
		return err
	},
	func(ctx context.Context, b *rdb.Broker) error {
		return inspect.New(b).ChangeAll(ctx, inspect.Change{Verb: inspect.Run, Queue: "q", From: wire.StateScheduled})
	},
	func(ctx context.Context, b *rdb.Broker) error {
		return inspect.New(b).ChangeAll(ctx, inspect.Change{Verb: inspect.Delete, Queue: "q", From: wire.StatePending})
	},
	func(ctx context.Context, b *rdb.Broker) error { return inspect.New(b).RemoveQueue(ctx, "q", true) },
	func(ctx context.Context, b *rdb.Broker) error {
		_, err := b.Purge(ctx, "q", wire.StateCompleted, 10)
		return err
	},
}

func walkOnce(state wire.State) func(ctx context.Context, b *rdb.Broker) error {
	return func(ctx context.Context, b *rdb.Broker) error {
		walk, err := inspect.New(b).Walk("q", state, "", false, nil)
		if err == nil {
			_, _, err = walk.Next(ctx, 10)
		}
		return err
	}
}

// FuzzReply makes each call parse a random reply: it may fail, but must not panic or loop forever.
func FuzzReply(f *testing.F) {
	for i, reply := range []any{
		nil, "", int64(0), []any{}, []any{int64(0), int64(0), int64(-1)}, []any{int64(1), int64(2)},
		[]any{"pending", "msg", nil, int64(-1), int64(0)},
		[]any{int64(1), "1800000000000000000", "id", "1800000000", "msg", nil, "1800000000000000000", "g"},
		[]any{int64(0), "1800000000000000000", "id", int64(1), nil, nil, nil, nil},
		[]any{int64(500), "group", "asynq:{q}:g:group:u", int64(3)},
		[]any{int64(1), int64(1000), "id", "token", "msg"},
		[]any{int64(1), int64(2), int64(3), int64(4), int64(5)},
		[]any{int64(0), int64(1), int64(0), "id", "msg"},
		[]any{[]any{int64(0), int64(1)}, []any{int64(0), int64(1), int64(0), "id", "msg"}},
		[]any{int64(1), int64(1), int64(1), int64(1), int64(1), int64(1), int64(1), int64(-1), int64(0), "1", "2", nil, "x", "1800000000000000000", "5"},
		"1800000000000:0:5", "1800000000000::", ":",
	} {
		for which := i % 3; which < len(replyReaders); which += 3 { // all of them would take long to begin with
			f.Add(uint8(which), writeReply(nil, reply))
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		reply, _ := readReply(b, 0)
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
		defer client.Close()
		client.AddHook(&scripted{reply: reply, left: 200})
		err := replyReaders[int(which)%len(replyReaders)](context.Background(), rdb.New(client, wire.DefaultNamespace))
		if err != nil && strings.TrimSpace(err.Error()) == "" {
			t.Errorf("%#v is an error without a text", reply)
		}
	})
}

// An out-of-range time written by another library is far in the future, not in the past.
func TestFarTimes(t *testing.T) {
	t.Parallel()
	for _, ms := range []int64{1 << 45, 1 << 50, 1<<63 - 1, 1<<63/1_000_000 + 1} {
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
		t.Cleanup(func() { _ = client.Close() })
		client.AddHook(&scripted{reply: []any{int64(0), int64(0), ms}, left: 2})
		if due := rdb.New(client, wire.DefaultNamespace).Forward(context.Background(), []string{"q"}, nil)[0]; due.Err != nil || due.Next < 100*365*24*time.Hour {
			t.Errorf("%d ms: %+v", ms, due)
		}
	}
}

// The kinds of values in a reply.
const (
	replyNil byte = iota
	replyInt
	replyText
	replyList
	replyKinds
)

// readReply decodes a reply from any bytes and returns the rest of them.
func readReply(b []byte, depth int) (reply any, rest []byte) {
	if len(b) == 0 {
		return nil, nil
	}
	kind, b := b[0]%replyKinds, b[1:]
	if kind == replyNil {
		return nil, b
	}
	n, size := binary.Varint(b)
	if size <= 0 {
		return nil, nil
	}
	b = b[size:]
	switch {
	case kind == replyInt:
		return n, b
	case kind == replyText:
		n = min(max(n, 0), int64(len(b)))
		return string(b[:n]), b[n:]
	case depth > 3:
		return nil, b
	}
	list := []any{}
	for ; n > 0 && len(b) > 0; n-- {
		var v any
		v, b = readReply(b, depth+1)
		list = append(list, v)
	}
	return list, b
}

// writeReply is the inverse of readReply.
func writeReply(b []byte, reply any) []byte {
	switch v := reply.(type) {
	case int64:
		return binary.AppendVarint(append(b, replyInt), v)
	case string:
		return append(binary.AppendVarint(append(b, replyText), int64(len(v))), v...)
	case []any:
		b = binary.AppendVarint(append(b, replyList), int64(len(v)))
		for _, item := range v {
			b = writeReply(b, item)
		}
		return b
	default:
		return append(b, replyNil)
	}
}
