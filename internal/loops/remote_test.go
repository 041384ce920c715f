package loops

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/wire"
)

// Commands are executed once and in order, before the heartbeat, and confirmed after it.
func TestRemote(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		var events []string
		var beatErr error
		process := wire.Process{Host: "host", PID: 7, ID: "id"}
		server := b.Namespace().Server(process)
		remote := &Remote{
			Broker: b, Process: process, Log: slog.New(slog.DiscardHandler),
			Execute: func(c wire.ServerCommand) (func(), error) {
				events = append(events, c.Verb)
				if c.Verb == "bad" {
					return nil, errors.New("no")
				}
				return func() { events = append(events, "after "+c.Verb) }, nil
			},
			Beat: func(context.Context) (time.Duration, error) {
				events = append(events, "beat")
				return 5 * time.Second, beatErr
			},
		}
		send := func(commands ...string) {
			t.Helper()
			for _, c := range commands {
				if err := b.SendCommand(ctx, server, "id", c); err != nil {
					t.Fatal(err)
				}
			}
		}
		want := func(all ...string) {
			t.Helper()
			if !slices.Equal(events, all) {
				t.Errorf("happened: %q, want %q", events, all)
			}
			events = nil
		}
		reply := func(id, want string, wantOK bool) {
			t.Helper()
			if got, ok, err := b.CommandReply(ctx, server, id); got != want || ok != wantOK || err != nil {
				t.Errorf("the reply to %s is %q, %t, error %v", id, got, ok, err)
			}
		}
		mustTick(t, remote.Tick, 5*time.Second)
		want("beat")

		one, two := `{"id":"1","verb":"one"}`, `{"id":"2","verb":"bad"}`
		send(one, two, one)
		reply("1", "", false)
		beatErr = errors.New("no connection")
		if _, err := remote.Tick(ctx); !errors.Is(err, beatErr) {
			t.Errorf("error %v", err)
		}
		want("one", "bad", "beat", "after one")
		reply("1", "", false)
		beatErr = nil
		mustTick(t, remote.Tick, 5*time.Second)
		want("beat") // they were executed before
		reply("1", "", true)
		reply("2", "no", true)
		mustTick(t, remote.Tick, 5*time.Second)
		want("beat")

		for key, limit := range map[string]time.Duration{wire.ServerReplies(server): time.Minute, wire.ServerCommands(server): 15 * time.Second} {
			send(one)
			if ttl := r.Client().TTL(ctx, key).Val(); ttl <= 0 || ttl > limit {
				t.Errorf("the TTL of %s is %v", key, ttl)
			}
		}
		if err := b.Withdraw(ctx, process); err != nil {
			t.Fatal(err)
		}
		if keys := r.Client().Keys(ctx, "*").Val(); !slices.Equal(keys, []string{wire.ServerReplies(server)}) {
			t.Errorf("left in Redis: %q", keys)
		}
	})
}

// If Redis rejects reading the commands, the heartbeats continue, and one line is logged.
func TestRemoteWithoutCommands(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		ctx, b := context.Background(), r.Broker()
		process := wire.Process{ID: "id"}
		var log bytes.Buffer
		beats := 0
		remote := &Remote{
			Broker: b, Process: process, Log: slog.New(slog.NewTextHandler(&log, nil)),
			Beat: func(context.Context) (time.Duration, error) { beats++; return time.Second, nil },
		}
		key := wire.ServerCommands(b.Namespace().Server(process))
		if err := r.Client().Set(ctx, key, "not a list", time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		mustTick(t, remote.Tick, time.Second)
		mustTick(t, remote.Tick, time.Second)
		if n := strings.Count(log.String(), "unavailable"); n != 1 || beats != 2 {
			t.Errorf("%d heartbeats, log:\n%s", beats, log.String())
		}
		canceled, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := remote.Tick(canceled); !errors.Is(err, context.Canceled) || beats != 3 {
			t.Errorf("error %v, %d heartbeats", err, beats)
		}
	})
}
