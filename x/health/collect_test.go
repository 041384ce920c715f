package health_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
	"github.com/asynq-go/asynq/x/health"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// check checks a Redis until the first cause is of a kind.
func check(env *testenv.Env, kind string) health.Cause {
	env.T.Helper()
	var report *health.Report
	env.Eventually(func() bool {
		var err error
		report, err = health.Check(context.Background(), env.Inspector(), health.Settings{PoisonAttempts: 1})
		if err != nil {
			env.T.Fatal(err)
		}
		return len(report.Problems) == 0 && len(report.Causes) > 0 && report.Causes[0].Kind == kind
	}, "the cause %s; the report is %+v", kind, report)
	return report.Causes[0]
}

func TestCheckNoServer(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		env.Enqueue("a")
		env.Enqueue("b", asynq.Queue("low"))
		if c := check(env, "no-server"); c.Title != "No server is running: 2 queues have 2 tasks" || c.Severity != health.Trouble {
			t.Errorf("%+v", c)
		}
		if err := env.Inspector().MuteCause(context.Background(), asynq.Mute{ID: "no-server"}); err != nil {
			t.Fatal(err)
		}
		report, err := health.Check(context.Background(), env.Inspector(), health.Settings{})
		if err != nil || len(report.Causes) != 0 || len(report.Muted) != 1 || report.Muted[0].Mute == nil {
			t.Errorf("muted: %+v, %v", report, err)
		}
		if _, err := env.Inspector().UnmuteCause(context.Background(), "no-server"); err != nil {
			t.Fatal(err)
		}
	})
}

// A type whose tasks panic is poison, as found in the tasks themselves.
func TestCheckPanics(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		env.Serve(asynq.Config{}, func(context.Context, *asynq.Task) error { panic("nil map") })
		env.EnqueueMany(3)
		c := check(env, "poison")
		if !strings.HasSuffix(c.Title, `with "panic: nil map"; one has failed 1 time`) || c.Link.Page != health.PageTask || c.Link.Task == "" {
			t.Errorf("%+v", c)
		}
	})
}

// A task that crashes its servers is active again at once. It is sampled if a server has crashed.
func TestSampleCrashes(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		env.Enqueue("crashes")
		env.FetchAndCrash(1)
		started := make(chan struct{}, 1)
		env.Serve(asynq.Config{}, func(ctx context.Context, _ *asynq.Task) error {
			started <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		})
		<-started
		sample := func(processes ...asynq.ProcessInfo) []health.ErrorSample {
			t.Helper()
			info, err := env.Inspector().GetQueueInfo("default")
			if err != nil {
				t.Fatal(err)
			}
			queues := []health.Queue{{Name: "default", Info: info}}
			all, err := health.SampleErrors(t.Context(), env.Inspector(), queues, processes, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			return all
		}
		if all := sample(asynq.ProcessInfo{}, asynq.ProcessInfo{Scheduler: true, Expired: time.Now()}); len(all) != 0 {
			t.Errorf("no server has crashed: %+v", all)
		}
		all := sample(asynq.ProcessInfo{Expired: time.Now().Add(-time.Minute)})
		if len(all) != 1 || all[0].Task != "crashes" || all[0].Failed != 1 || all[0].Tasks != 1 {
			t.Errorf("%+v", all)
		}
	})
}

// The kind of most errors of a type is in the title, without a Monitor and its memory.
func TestCheckFailing(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		env.Serve(asynq.Config{}, func(_ context.Context, task *asynq.Task) error {
			return errors.New("503 from initech: request " + string(task.Payload()))
		})
		for n := range 20 {
			task := asynq.NewTask("webhook:deliver", fmt.Appendf(nil, "%06d", n))
			if _, err := env.Client.Enqueue(task); err != nil {
				t.Fatal(err)
			}
		}
		c := check(env, "failing")
		if !strings.Contains(c.Title, "of webhook:deliver fail") || !strings.Contains(c.Title, "503 from initech") || c.Severity < health.Warning {
			t.Errorf("%+v", c)
		}
	})
}

func TestCheckUnreachable(t *testing.T) {
	t.Parallel()
	i := asynq.NewInspector(asynq.RedisClientOpt{Addr: "127.0.0.1:1", Params: "max_retries=-1"})
	defer i.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	report, err := health.Check(ctx, i, health.Settings{})
	if err != nil || len(report.Causes) != 1 || report.Causes[0].Kind != "redis-unreachable" || !strings.HasPrefix(report.Causes[0].Title, "Redis is unreachable: ") {
		t.Errorf("%+v, %v", report, err)
	}
	if report, err := health.Check(nil, i, health.Settings{}); err != nil || report.Causes[0].Kind != "redis-unreachable" { //nolint:staticcheck // a nil context
		t.Errorf("%+v, %v", report, err)
	}
}
