package asynq_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/testenv"
	"github.com/asynq-go/asynq/internal/wire"
)

func TestRedisNodes(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		env.Enqueue("default")
		nodes, err := env.Inspector().RedisNodes(context.Background())
		if err != nil || len(nodes) != 1 {
			t.Fatalf("nodes %+v, error %v", nodes, err)
		}
		n := nodes[0]
		if n.Err != nil || n.Addr != env.Addr || n.Keys == 0 || time.Since(n.Now).Abs() > time.Minute || !strings.Contains(n.Info, "connected_clients") {
			t.Errorf("node %+v", n)
		}
	})
}

// A process is running as long as its key exists, and the key of one that crashed is gone. Its
// clock is ahead if it sets a later expiry.
func TestProcesses(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx, ns, now := context.Background(), wire.DefaultNamespace, time.Now()
		add := func(set, key string, expiry time.Time, running bool) {
			if running {
				env.RDB.Set(ctx, key, "x", 10*time.Second)
			}
			env.RDB.ZAdd(ctx, set, redis.Z{Score: float64(expiry.Unix()), Member: key})
		}
		process := func(host string) wire.Process { return wire.Process{Host: host, PID: 7, ID: "id"} }
		add(ns.Servers(), ns.Server(process("good")), now.Add(10*time.Second), true)
		add(ns.Servers(), ns.Server(process("ahead")), now.Add(10*time.Second+3*time.Minute), true)
		add(ns.Servers(), ns.Server(process("behind")), now.Add(10*time.Second-3*time.Minute), true)
		add(ns.Servers(), ns.Server(process("crashed")), now.Add(-5*time.Minute), false)
		add(ns.Servers(), ns.Server(process("long ago")), now.Add(-2*time.Hour), false)
		add(ns.Schedulers(), ns.Scheduler(process("cron")), now.Add(-time.Minute), false)
		add(ns.Schedulers(), "something else", now, false)
		defer env.RDB.Del(ctx, ns.Servers(), ns.Schedulers(), ns.Server(process("good")), ns.Server(process("ahead")), ns.Server(process("behind")))

		found, err := env.Inspector().Processes(ctx, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		by := make(map[string]asynq.ProcessInfo)
		for _, p := range found {
			by[p.Host] = p
			if p.PID != 7 || p.ID != "id" || p.Scheduler != (p.Host == "cron") {
				t.Errorf("process %+v", p)
			}
		}
		if len(found) != 5 {
			t.Errorf("processes %+v", found)
		}
		for host, want := range map[string]time.Duration{"good": 0, "ahead": 3 * time.Minute, "behind": -3 * time.Minute} {
			if p := by[host]; !p.Expired.IsZero() || (p.ClockSkew-want).Abs() > 2*time.Second {
				t.Errorf("%s: %+v, want skew %v", host, p, want)
			}
		}
		for host, want := range map[string]time.Duration{"crashed": 5 * time.Minute, "cron": time.Minute} {
			if p := by[host]; p.ClockSkew != 0 || (now.Sub(p.Expired)-want).Abs() > 2*time.Second {
				t.Errorf("%s: %+v, want one that expired %v ago", host, p, want)
			}
		}
	})
}

// A server that shuts down is not a lost process; a running one has no skew on the same host.
func TestProcessesOfServer(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		i := env.Inspector()
		srv := asynq.NewServer(env.Opt(), asynq.Config{LogLevel: asynq.FatalLevel})
		if err := srv.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil })); err != nil {
			t.Fatal(err)
		}
		var found []asynq.ProcessInfo
		env.Eventually(func() bool {
			found, _ = i.Processes(context.Background(), time.Hour)
			return len(found) == 1
		}, "the server")
		if p := found[0]; !p.Expired.IsZero() || p.ClockSkew.Abs() > 2*time.Second || p.Scheduler {
			t.Errorf("process %+v", p)
		}
		srv.Shutdown()
		if found, err := i.Processes(context.Background(), time.Hour); err != nil || len(found) != 0 {
			t.Errorf("after Shutdown: %+v, %v", found, err)
		}
	})
}

// A server whose clock is some minutes behind is listed.
func TestServersBehind(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx, ns := context.Background(), wire.DefaultNamespace
		p := wire.Process{Host: "late", PID: 1, ID: "id"}
		info := &wire.ServerInfo{Host: "late", PID: 1, ServerID: "id", Status: "active"}
		encoded, err := info.Encode()
		if err != nil {
			t.Fatal(err)
		}
		presence := &rdb.Presence{Process: p, Info: encoded}
		if env.Broker().Publish(ctx, presence); presence.Err != nil {
			t.Fatal(presence.Err)
		}
		env.RDB.ZAdd(ctx, ns.Servers(), redis.Z{Score: float64(time.Now().Add(-5 * time.Minute).Unix()), Member: ns.Server(p)})
		defer env.RDB.Del(ctx, ns.Servers(), ns.Server(p))
		if servers, err := env.Inspector().Servers(); err != nil || len(servers) != 1 {
			t.Errorf("servers %v, error %v", servers, err)
		}
	})
}

func TestMutes(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx, i := context.Background(), env.Inspector()
		mute := func(m asynq.Mute) {
			t.Helper()
			if err := i.MuteCause(ctx, m); err != nil {
				t.Fatal(err)
			}
		}
		until := time.Now().Add(time.Hour)
		mute(asynq.Mute{ID: "paused:mail", Until: until.Add(time.Hour)})
		mute(asynq.Mute{ID: "paused:mail", Until: until, By: "ann", Note: "migration"})
		mute(asynq.Mute{ID: "no-server"})
		mute(asynq.Mute{ID: "z", Until: time.Now().Add(time.Minute)})
		mutes, err := i.Mutes(ctx)
		if err != nil || len(mutes) != 3 {
			t.Fatalf("mutes %v, error %v", mutes, err)
		}
		if m := mutes[1]; m.ID != "paused:mail" || m.Until.UnixMilli() != until.UnixMilli() || m.By != "ann" || m.Note != "migration" || time.Since(m.At) > time.Minute {
			t.Errorf("mute %+v", m)
		}
		if m := mutes[0]; m.ID != "no-server" || !m.Until.IsZero() {
			t.Errorf("acknowledged %+v", m)
		}
		key := wire.DefaultNamespace.HealthMutes()
		if ttl := env.RDB.PTTL(ctx, key).Val(); ttl < 29*24*time.Hour || ttl > wire.AcknowledgedFor {
			t.Errorf("the key expires in %v", ttl)
		}

		// Ended and undecodable ones are not listed, and deleted by the next mute.
		env.RDB.HSet(ctx, key, "old", wire.Mute{At: 1, Until: 2}.Encode(), "odd", "{")
		if mutes, err := i.Mutes(ctx); err != nil || len(mutes) != 3 {
			t.Errorf("mutes %v, error %v", mutes, err)
		}
		mute(asynq.Mute{ID: "z", Until: time.Now().Add(time.Minute)})
		if n := env.RDB.HLen(ctx, key).Val(); n != 3 {
			t.Errorf("%d mutes are stored", n)
		}
		if n, err := i.UnmuteCause(ctx, "z", "paused:mail", "unknown"); n != 2 || err != nil {
			t.Errorf("unmuted %d, error %v", n, err)
		}
		if mutes, err := i.Mutes(ctx); err != nil || len(mutes) != 1 || mutes[0].ID != "no-server" {
			t.Errorf("mutes %v, error %v", mutes, err)
		}
	})
}

func TestMutesAreBounded(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx, i := context.Background(), env.Inspector()
		values := make([]any, 0, 2000)
		for n := range 1000 {
			values = append(values, string(rune('a'+n%26))+time.Duration(n).String(), wire.Mute{At: time.Now().UnixMilli()}.Encode())
		}
		key := wire.DefaultNamespace.HealthMutes()
		env.RDB.HSet(ctx, key, values...)
		env.RDB.Expire(ctx, key, time.Hour)
		if err := i.MuteCause(ctx, asynq.Mute{ID: "one more"}); err == nil || !strings.Contains(err.Error(), "more than 1,000 causes") {
			t.Errorf("error %v", err)
		}
		if err := i.MuteCause(ctx, asynq.Mute{ID: values[0].(string)}); err != nil {
			t.Error("a mute could not be replaced:", err)
		}
	})
}
