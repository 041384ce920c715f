package guarantee_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/rdbcheck"
	"github.com/asynq-go/asynq/internal/testenv"
	"github.com/asynq-go/asynq/internal/wire"
)

func TestGuarantee07UndecodableTasks(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	now := time.Now().Unix()
	garbage := func(env *testenv.Env, id string, state wire.State) {
		env.RDB.HSet(ctx, env.Queue.Task(id), wire.FieldMessage, "\xff\xff not a message", wire.FieldState, state.String(), wire.FieldPendingSince, time.Now().UnixNano())
	}
	for _, tc := range []struct {
		name  string
		plant func(env *testenv.Env)
		// state is the final state of the task "bad"; 0 means that it is deleted.
		state wire.State
		log   string
	}{
		{
			name: "undecodable message in pending", state: wire.StateArchived, log: "unreadable",
			plant: func(env *testenv.Env) {
				garbage(env, "bad", wire.StatePending)
				env.RDB.RPush(ctx, env.Queue.Pending(), "bad")
			},
		},
		{
			name: "message of another task in pending", state: wire.StateArchived, log: "unreadable",
			plant: func(env *testenv.Env) {
				env.Enqueue("other", asynq.ProcessIn(time.Hour))
				msg := env.RDB.HGet(ctx, env.Queue.Task("other"), wire.FieldMessage).Val()
				env.RDB.HSet(ctx, env.Queue.Task("bad"), wire.FieldMessage, msg, wire.FieldState, "pending")
				env.RDB.RPush(ctx, env.Queue.Pending(), "bad")
			},
		},
		{
			name: "no hash in pending", log: "dropped",
			plant: func(env *testenv.Env) { env.RDB.RPush(ctx, env.Queue.Pending(), "bad") },
		},
		{
			name: "no message in pending", state: wire.StateArchived,
			plant: func(env *testenv.Env) {
				env.RDB.HSet(ctx, env.Queue.Task("bad"), wire.FieldState, "pending")
				env.RDB.RPush(ctx, env.Queue.Pending(), "bad")
			},
		},
		{
			name: "undecodable message with an expired lease", state: wire.StateArchived, log: "unreadable",
			plant: func(env *testenv.Env) {
				garbage(env, "bad", wire.StateActive)
				env.RDB.LPush(ctx, env.Queue.Active(), "bad")
				env.RDB.ZAdd(ctx, env.Queue.Lease(), redis.Z{Score: float64(now - 60), Member: "bad"})
			},
		},
		{
			name: "no hash with an expired lease", log: "removed a lease",
			plant: func(env *testenv.Env) {
				env.RDB.LPush(ctx, env.Queue.Active(), "bad")
				env.RDB.ZAdd(ctx, env.Queue.Lease(), redis.Z{Score: float64(now - 60), Member: "bad"})
			},
		},
		{
			name: "undecodable message that is due", state: wire.StateArchived, log: "unreadable",
			plant: func(env *testenv.Env) {
				garbage(env, "bad", wire.StateScheduled)
				env.RDB.ZAdd(ctx, env.Queue.Scheduled(), redis.Z{Score: float64(now - 60), Member: "bad"})
			},
		},
		{
			name: "no hash that is due", log: "",
			plant: func(env *testenv.Env) {
				env.RDB.ZAdd(ctx, env.Queue.Retry(), redis.Z{Score: float64(now - 60), Member: "bad"})
			},
		},
		{
			name: "no hash with an expired retention",
			plant: func(env *testenv.Env) {
				env.RDB.ZAdd(ctx, env.Queue.Completed(), redis.Z{Score: float64(now - 60), Member: "bad"})
			},
		},
		{
			name: "no hash in the archive",
			plant: func(env *testenv.Env) {
				env.RDB.ZAdd(ctx, env.Queue.Archived(), redis.Z{Score: float64(now - 91*24*60*60), Member: "bad"})
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			testenv.Each(t, func(env *testenv.Env) {
				env.AllowViolations() // an undecodable message violates an invariant, also in the archive
				tc.plant(env)
				// Healthy tasks wait behind it in the same collections.
				env.Enqueue("crashed")
				crashLongAgo(env, "crashed")
				env.Enqueue("pending")
				env.RDB.ZAdd(ctx, env.Queue.Scheduled(), redis.Z{Score: float64(now), Member: env.Enqueue("due", asynq.ProcessIn(time.Hour)).ID})
				var ran testenv.Tally
				srv := env.Serve(asynq.Config{Concurrency: 1, LeaseDuration: time.Second}, ran.Handle)
				env.Eventually(func() bool { return ran.Of("crashed")*ran.Of("pending")*ran.Of("due") == 1 }, "the healthy tasks to run")
				want := ""
				if tc.state != 0 {
					want = tc.state.String()
				}
				env.Eventually(func() bool {
					return env.State("bad") == want && (want != "") == (len(collectionsOf(env, "bad")) == 1)
				}, "the broken task to be archived or deleted")
				if ran.Of("bad") > 0 {
					env.T.Error("a handler received the broken task")
				}
				srv.Shutdown() // the log follows the change
				if tc.log != "" && env.Log.Count(tc.log, "task=bad") != 1 {
					env.T.Errorf("the broken task was logged %d times, want once", env.Log.Count(tc.log, "task=bad"))
				}
				wantViolationsOnlyOf(env, "bad")
			})
		})
	}
}

// An undecodable task does not block the operations of the Inspector, and can be moved and deleted.
func TestGuarantee07InspectorOperations(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		env.AllowViolations() // an undecodable message violates an invariant
		ctx, i := context.Background(), env.Inspector()
		for _, id := range []string{"bad", "none", "good"} {
			env.Enqueue(id, asynq.ProcessIn(time.Hour), asynq.Unique(time.Hour))
		}
		env.RDB.HSet(ctx, env.Queue.Task("bad"), wire.FieldMessage, "\xff\xff not a message")
		env.RDB.HDel(ctx, env.Queue.Task("none"), wire.FieldMessage)
		env.RDB.ZAdd(ctx, env.Queue.Scheduled(), redis.Z{Score: float64(time.Now().Unix()), Member: "missing"})
		all := func(what string, want int, change func(string) (int, error)) {
			env.T.Helper()
			if n, err := change("default"); n != want || err != nil {
				env.T.Errorf("%s: %d tasks, error %v; want %d", what, n, err, want)
			}
		}
		all("run", 3, i.RunAllScheduledTasks)
		all("archive", 3, i.ArchiveAllPendingTasks)
		for _, id := range []string{"bad", "none", "good"} {
			for what, err := range map[string]error{
				"run": i.RunTask("default", id), "archive": i.ArchiveTask("default", id),
				"reschedule": i.RescheduleTask(ctx, "default", id, time.Now().Add(time.Hour)),
			} {
				if err != nil {
					env.T.Errorf("%s of %s: %v", what, id, err)
				}
			}
		}
		if err := i.UpdateTaskPayload("default", "bad", nil); err == nil {
			env.T.Error("the payload of the undecodable task changed")
		}
		if err := i.DeleteTask("default", "bad"); err != nil {
			env.T.Error(err)
		}
		all("delete", 2, i.DeleteAllScheduledTasks)
		if err := i.DeleteQueue("default", false); err != nil {
			env.T.Error(err)
		}
		if left := env.Keys("asynq:{default}:*"); len(left) > 0 {
			env.T.Errorf("keys left: %v", left)
		}
	})
}

// crashLongAgo leaves a task as a crashed server of the reference library does, with a lease that
// expired long ago.
func crashLongAgo(env *testenv.Env, id string) {
	env.T.Helper()
	ctx := context.Background()
	env.RDB.LRem(ctx, env.Queue.Pending(), 1, id)
	env.RDB.LPush(ctx, env.Queue.Active(), id)
	env.RDB.ZAdd(ctx, env.Queue.Lease(), redis.Z{Score: float64(time.Now().Unix() - 31), Member: id})
	env.RDB.HSet(ctx, env.Queue.Task(id), wire.FieldState, wire.StateActive.String())
	env.RDB.HDel(ctx, env.Queue.Task(id), wire.FieldPendingSince)
}

// wantViolationsOnlyOf reports each broken invariant that does not concern the task id.
func wantViolationsOnlyOf(env *testenv.Env, id string) {
	env.T.Helper()
	found, err := rdbcheck.Check(context.Background(), env.RDB, wire.DefaultNamespace)
	if err != nil {
		env.T.Fatal(err)
	}
	for _, v := range found {
		if v.ID != id {
			env.T.Errorf("broken invariant: %v", v)
		}
	}
}

// A queue with keys that another program has damaged can still be listed.
func TestGuarantee07InspectorLists(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		env.AllowViolations()
		ctx, i := context.Background(), env.Inspector()
		env.Enqueue("fine")
		env.RDB.HSet(ctx, env.Queue.Task("bad"), "state", "pending", "msg", "\xff", "result", "r")
		env.RDB.RPush(ctx, env.Queue.Pending(), "bad", "missing")
		got, err := i.ListPendingTasks("default")
		if err != nil || !slices.Equal(testenv.TaskIDs(got), []string{"bad", "fine"}) || got[0].Queue != "default" || string(got[0].Result) != "r" {
			env.T.Errorf("listed %v, error %v", got, err)
		}
		env.RDB.Set(ctx, env.Queue.Retry(), "not a set", 0)
		if _, err := i.GetQueueInfo("default"); err == nil || !strings.Contains(err.Error(), env.Queue.Retry()) {
			env.T.Errorf("info: %v", err)
		}
	})
}
