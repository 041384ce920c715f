package doctor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/testenv"
	"github.com/asynq-go/asynq/x/doctor"
)

// Diagnose finds nothing while a server and a client work, and does not disturb them.
func TestDiagnoseFindsNothingWhileServersRun(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		var ran atomic.Int64
		const n = 400
		all := make(chan struct{})
		env.Serve(asynq.Config{Concurrency: 20, RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return 0 }},
			func(ctx context.Context, task *asynq.Task) error {
				if retried, _ := asynq.GetRetryCount(ctx); retried == 0 && task.Payload()[0]%7 == 3 {
					return asynq.RetryAfter(0)
				}
				if ran.Add(1) == n {
					close(all)
				}
				return nil
			})
		enqueued := make(chan struct{})
		go func() {
			defer close(enqueued)
			for i := range n {
				opts := []asynq.Option{asynq.TaskID(fmt.Sprint("t", i))}
				switch i % 4 {
				case 1:
					opts = append(opts, asynq.Unique(time.Minute))
				case 2:
					opts = append(opts, asynq.Retention(time.Minute))
				case 3:
					opts = append(opts, asynq.ProcessIn(time.Second))
				}
				if _, err := env.Client.Enqueue(asynq.NewTask("work", []byte{byte(i), byte(i >> 8)}), opts...); err != nil {
					env.T.Errorf("enqueue: %v", err)
				}
			}
		}()
		diagnoses := 0
		for done := false; !done; diagnoses++ {
			select {
			case <-all:
				done = true
			default:
			}
			for f, err := range doctor.Diagnose(context.Background(), env.Opt(), doctor.Options{Repair: diagnoses%2 == 1}) {
				env.T.Errorf("found %v, error %v", f, err)
			}
		}
		<-enqueued
		if diagnoses < 2 {
			env.T.Errorf("only %d diagnoses", diagnoses)
		}
	})
}

// A type that no server of the queue handles is found, and not repaired.
func TestDiagnoseFindsUnhandledTypes(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		mux := asynq.NewServeMux()
		mux.HandleFunc("known", func(context.Context, *asynq.Task) error { return nil })
		srv := asynq.NewServer(env.Opt(), asynq.Config{UnhandledFor: time.Hour, Logger: testenv.DiscardLogger()})
		if err := srv.Start(mux); err != nil {
			t.Fatal(err)
		}
		env.T.Cleanup(srv.Shutdown)
		env.Enqueue("unknown")
		env.AwaitState("unknown", "retry")
		env.Eventually(func() bool { servers, err := env.Inspector().Servers(); return err == nil && len(servers) == 1 }, "the server")
		for _, o := range []doctor.Options{{}, {Repair: true}, {Queues: []string{"default"}}} {
			n := 0
			for f, err := range doctor.Diagnose(context.Background(), env.Opt(), o) {
				if n++; err != nil || f.Kind != doctor.UnhandledType || f.Queue != "default" || f.Repaired || !strings.Contains(f.Detail, `"unknown": 1`) {
					env.T.Errorf("found %v, error %v", f, err)
				}
			}
			if n != 1 {
				env.T.Errorf("%d findings with %+v, want 1", n, o)
			}
		}
	})
}

// Held tasks in a queue whose servers have no partitions are found.
func TestDiagnoseFindsUnservedPartitions(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx, i := context.Background(), env.Inspector()
		diagnose := func(when string, want ...string) {
			t.Helper()
			for _, o := range []doctor.Options{{}, {Repair: true}, {Queues: []string{"default"}}} {
				found := []string{}
				for f, err := range doctor.Diagnose(ctx, env.Opt(), o) {
					if err != nil {
						env.T.Fatal(err)
					}
					found = append(found, f.String())
				}
				if !slices.Equal(found, want) {
					env.T.Errorf("%s, it finds %q, want %q", when, found, want)
				}
			}
		}
		serve := func(p *asynq.PartitionConfig, servers int) *asynq.Server {
			srv := env.Serve(asynq.Config{QueueConfigs: map[string]asynq.QueueConfig{"default": {Partitions: p}}},
				func(context.Context, *asynq.Task) error { return nil })
			env.Eventually(func() bool { all, err := i.Servers(); return err == nil && len(all) == servers }, "%d servers", servers)
			return srv
		}
		env.Enqueue("x")
		if err := i.SetPartition(ctx, "default", "a", asynq.PartitionSettings{Paused: true}); err != nil {
			env.T.Fatal(err)
		}
		for _, id := range []string{"first", "second"} {
			env.Enqueue("x", asynq.TaskID(id), asynq.PartitionKey("a"))
		}
		partitioned := serve(&asynq.PartitionConfig{}, 1)
		env.Eventually(func() bool { q, err := i.GetQueueInfo("default"); return err == nil && q.Held == 2 && q.Size == 2 }, "two held tasks")
		partitioned.Shutdown()
		diagnose("without servers")
		serve(nil, 1)
		diagnose("with tasks just held")
		redistest.Must(env.T, env.RDB.HSet(ctx, env.Queue.Task("first"), "pending_since", time.Now().Add(-2*time.Minute).UnixNano()))
		diagnose("with a server without partitions", "unserved-partitions: asynq:{default}:partitions:held: the queue has 2 held tasks, "+
			"but no running server of it has partitions: they wait for up to a day")
		serve(&asynq.PartitionConfig{}, 2)
		diagnose("with partitions on another server")
	})
}

// Repaired tasks run, which no server would have run before.
func TestDiagnoseRepairs(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		ctx := context.Background()
		env.Client = asynq.NewClient(env.Opt())
		env.Enqueue("lost")
		env.Enqueue("late", asynq.ProcessIn(time.Hour))
		env.Enqueue("locked", asynq.Unique(time.Hour))
		if err := env.Client.Close(); err != nil { // otherwise it registers the queue again
			env.T.Fatal(err)
		}
		env.RDB.Del(ctx, env.Queue.Pending(), env.Queue.Scheduled(), "asynq:queues")
		env.RDB.RPush(ctx, env.Queue.Pending(), "missing")
		env.RDB.Set(ctx, env.Queue.Unique("other", nil), "missing", 0)

		var kinds []string
		for f, err := range doctor.Diagnose(ctx, asynq.SharedRedisClient(env.RDB), doctor.Options{Repair: true}) {
			if err != nil {
				env.T.Fatal(err)
			}
			if !f.Repaired || f.Queue != "default" {
				env.T.Errorf("%v: Repaired is %v", f, f.Repaired)
			}
			kinds = append(kinds, string(f.Kind)+" "+f.TaskID)
		}
		slices.Sort(kinds)
		want := []string{"dangling-id missing", "orphan-lock missing", "orphan-task late", "orphan-task locked", "orphan-task lost", "unregistered-queue "}
		if !slices.Equal(kinds, want) {
			env.T.Errorf("found %q, want %q", kinds, want)
		}
		ran := make(chan string, 10)
		env.Serve(asynq.Config{Concurrency: 3}, func(_ context.Context, task *asynq.Task) error {
			ran <- task.ResultWriter().TaskID()
			return nil
		})
		for range 3 {
			select {
			case <-ran:
			case <-time.After(testenv.Timeout):
				env.T.Fatal("a repaired task does not run")
			}
		}
	})
}

// A diagnosis stops with the loop over it, and when its context is canceled.
func TestDiagnoseStopsWithLoop(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		env.AllowViolations()
		for _, id := range []string{"a", "b", "c"} {
			env.RDB.LPush(context.Background(), "asynq:{default}:pending", id)
		}
		env.RDB.SAdd(context.Background(), "asynq:queues", "default")
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		found := 0
		for f, err := range doctor.Diagnose(ctx, env.Opt(), doctor.Options{}) {
			if found++; err != nil || f.Kind != doctor.DanglingID {
				env.T.Fatalf("found %v, error %v", f, err)
			}
			if found == 2 {
				break
			}
		}
		if found != 2 {
			env.T.Errorf("found %d problems, want 2", found)
		}
		want := errors.New("enough")
		canceled, cancelCause := context.WithCancelCause(context.Background())
		defer cancelCause(nil)
		var errs []error
		for _, err := range doctor.Diagnose(canceled, env.Opt(), doctor.Options{}) {
			cancelCause(want)
			if err != nil {
				errs = append(errs, err)
			}
		}
		if len(errs) != 1 || !errors.Is(errs[0], want) {
			env.T.Errorf("errors %v, want one with the cause", errs)
		}
	})
}

// If Redis hangs, a diagnosis ends when its context is canceled, long before the connection times
// out.
func TestDiagnoseEndsOnCancel(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		env.Enqueue("t")
		proxy, opt := env.Proxy()
		proxy.Blackhole()
		opt.ReadTimeout = time.Minute
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(100*time.Millisecond, cancel)
		start := time.Now()
		if err := testenv.LastError(doctor.Diagnose(ctx, opt, doctor.Options{})); !errors.Is(err, context.Canceled) {
			env.T.Errorf("error %v", err)
		}
		if took := time.Since(start); took > 2*time.Second+testenv.Slack {
			env.T.Errorf("the diagnosis took %v", took)
		}
	})
}

// Invalid arguments are errors. Queues that do not exist have no findings.
func TestDiagnoseOfInvalidArguments(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		env.Enqueue("t")
		before := env.Snapshot(env.T)
		ctx := context.Background()
		var noContext context.Context
		for name, tt := range map[string]struct {
			ctx   context.Context
			redis asynq.RedisConnOpt
			queue string
			want  string
		}{
			"nil context":   {noContext, env.Opt(), "default", "doctor: ctx must not be nil"},
			"nil options":   {ctx, nil, "default", "RedisConnOpt is nil"},
			"empty name":    {ctx, env.Opt(), "", "queue name must not be empty"},
			"blank name":    {ctx, env.Opt(), " \t\r\n\u2028", "queue name must not be empty"},
			"closing brace": {ctx, env.Opt(), "}", "doctor: queue name \"}\" must not begin with a closing brace"},
		} {
			n := 0
			for f, err := range doctor.Diagnose(tt.ctx, tt.redis, doctor.Options{Queues: []string{"default", tt.queue}, Repair: true}) {
				if n++; f != nil || err == nil || !strings.HasPrefix(err.Error(), "doctor: ") || !strings.Contains(err.Error(), tt.want) {
					env.T.Errorf("%s: finding %v, error %v", name, f, err)
				}
			}
			if n != 1 {
				env.T.Errorf("%s: %d errors, want 1", name, n)
			}
		}
		missing := []string{"missing", "not\xffUTF-8\xc3(", "clo}sing", "*?[a-z]\\", "default}:pending", strings.Repeat("n", 1<<15)}
		for f, err := range doctor.Diagnose(ctx, env.Opt(), doctor.Options{Queues: missing, Repair: true}) {
			env.T.Errorf("in missing queues: finding %v, error %v", f, err)
		}
		if diff := cmp.Diff(before, env.Snapshot(env.T)); diff != "" {
			env.T.Errorf("Redis changed (-before +after):\n%s", diff)
		}
	})
}

// connection is a connection that a diagnosis opens, unless it is shared.
type connection struct{ client redis.UniversalClient }

func (c connection) MakeRedisClient() any { return c.client }

// A diagnosis uses the namespace of its connection, and closes a connection that it opened, whether
// it ends by itself or with the loop.
func TestDiagnoseClosesItsConnection(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		env.AllowViolations()
		ctx := context.Background()
		redistest.Must(env.T, env.RDB.LPush(ctx, "other:{q}:pending", "x", "y"))
		for n := 1; n <= 3; n++ {
			for _, shared := range []bool{false, true} {
				client := redis.NewClient(&redis.Options{Addr: env.Addr, DB: env.DB})
				var opt asynq.RedisConnOpt = connection{client}
				if shared {
					opt = asynq.SharedRedisClient(client)
				}
				found := 0
				for f, err := range doctor.Diagnose(ctx, asynq.WithNamespace(opt, "other"), doctor.Options{}) {
					if err != nil || f.Queue != "q" {
						env.T.Errorf("finding %v, error %v", f, err)
					}
					if found++; found == n {
						break
					}
				}
				if found != n {
					env.T.Errorf("%d findings, want %d", found, n)
				}
				if err := client.Ping(ctx).Err(); errors.Is(err, redis.ErrClosed) == shared {
					env.T.Errorf("shared %v: error %v after the diagnosis", shared, err)
				}
				_ = client.Close() // the error if it was closed
			}
		}
	})
}

func TestEmptyFindingHasText(t *testing.T) {
	if (&doctor.Finding{}).String() == "" {
		t.Error("no text")
	}
}
