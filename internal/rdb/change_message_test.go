package rdb_test

import (
	"context"
	"errors"
	"testing"

	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/wire"
)

func TestUpdateMessage(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		seedChanges(t, r)
		for id, want := range map[string]error{
			"scheduled": nil, "nobody": rdb.ErrTaskGone, "active": rdb.ErrTaskActive, "pending": rdb.ErrTaskUnfit, "stagedG": rdb.ErrTaskUnfit,
			"retry": rdb.ErrTaskUnfit, "archived": rdb.ErrTaskUnfit,
		} {
			edit := func(m *wire.TaskMessage) error { m.Payload = []byte("new"); return nil }
			if err := b.UpdateMessage(ctx, "q", id, edit); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", id, err, want)
			}
		}
		info, err := b.TaskInfo(ctx, "q", "scheduled")
		if err != nil || string(info.Message.Payload) != "new" {
			t.Errorf("%+v, error %v", info, err)
		}
		if got := r.Client().Get(ctx, "asynq:{q}:unique:test:scheduled").Val(); got != "scheduled" {
			t.Errorf("the lock is held by %q", got)
		}

		// Somebody else is quicker, once.
		edits := 0
		err = b.UpdateMessage(ctx, "q", "scheduled", func(m *wire.TaskMessage) error {
			if edits++; edits == 1 {
				other := redistest.Message("q", "scheduled")
				other.Type = "changed"
				must(t, r.Client().HSet(ctx, b.Keys("q").Task("scheduled"), "msg", redistest.Encode(t, other)))
			}
			m.Payload = []byte("newer")
			return nil
		})
		info, _ = b.TaskInfo(ctx, "q", "scheduled")
		if err != nil || edits != 2 || info.Message.Type != "changed" || string(info.Message.Payload) != "newer" {
			t.Errorf("%d edits, %+v, error %v", edits, info.Message, err)
		}
		fails := errors.New("fails")
		if err := b.UpdateMessage(ctx, "q", "scheduled", func(*wire.TaskMessage) error { return fails }); !errors.Is(err, fails) {
			t.Errorf("got %v", err)
		}
		err = repeatingBroker(t, r).UpdateMessage(ctx, "q", "scheduled", func(m *wire.TaskMessage) error { m.Payload = nil; return nil })
		if err != nil {
			t.Errorf("repeated: %v", err)
		}
		must(t, r.Client().HSet(ctx, b.Keys("q").Task("scheduledG"), "msg", "\xff"))
		if err := b.UpdateMessage(ctx, "q", "scheduledG", func(*wire.TaskMessage) error { return nil }); err == nil {
			t.Error("a message that cannot be read was changed")
		}
		if codes, err := b.DeleteTasks(ctx, "q", []string{"scheduledG"}); err != nil || codes[0] != rdb.CodeOK {
			t.Errorf("%v, %v", codes, err)
		}
	})
}
