package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/acltest"
)

// enqueueAllKinds enqueues tasks of all kinds as a producer.
func enqueueAllKinds(t *testing.T, opt asynq.RedisConnOpt) {
	t.Helper()
	client := asynq.NewClient(opt)
	t.Cleanup(func() { _ = client.Close() })
	if err := client.Ping(); err != nil {
		t.Error(err)
	}
	enqueue := func(typename string, opts ...asynq.Option) {
		t.Helper()
		if _, err := client.Enqueue(asynq.NewTask(typename, []byte("{}")), opts...); err != nil {
			t.Errorf("%s: %v", typename, err)
		}
	}
	enqueue("done")
	enqueue("result", asynq.TaskID("result"), asynq.Retention(time.Hour), asynq.Queue("other"))
	enqueue("retry", asynq.MaxRetry(5), asynq.Timeout(time.Minute))
	enqueue("skip", asynq.Deadline(time.Now().Add(time.Hour)))
	enqueue("revoke", asynq.Unique(time.Hour))
	enqueue("snooze")
	enqueue("panic", asynq.MaxRetry(0))
	enqueue("cancel", asynq.TaskID("cancel"))
	enqueue("soon", asynq.ProcessIn(time.Second))
	enqueue("later", asynq.ProcessIn(time.Hour), asynq.TaskID("later"), asynq.Unique(time.Hour))
	for n := range 5 {
		enqueue(fmt.Sprint("member", n), asynq.Group("g"), asynq.Unique(time.Hour))
	}
	enqueue("member", asynq.Group("delayed"), asynq.ProcessIn(time.Hour))
	if _, err := client.Enqueue(asynq.NewTask("x", nil), asynq.TaskID("later")); !errors.Is(err, asynq.ErrTaskIDConflict) {
		t.Errorf("existing ID: %v", err)
	}
	batch := []*asynq.Task{asynq.NewTask("done", nil), asynq.NewTask("done", nil, asynq.Queue("other"))}
	for _, r := range client.BatchEnqueueContext(t.Context(), batch) {
		if r.Err != nil {
			t.Error(r.Err)
		}
	}
}

// A producer enqueues tasks of all kinds, and a worker processes them, with only the permissions of
// docs/ACL.md.
func TestACLProducerAndWorker(t *testing.T) {
	t.Parallel()
	r := acltest.Start(t)
	enqueueAllKinds(t, r.As("producer"))
	if denied := r.Denied(); len(denied) > 0 {
		t.Errorf("the producer was denied %q", denied)
	}
	inspector := asynq.NewInspector(asynq.RedisClientOpt{Addr: r.Addr})
	t.Cleanup(func() { _ = inspector.Close() })

	abandon(t, r)
	var mu sync.Mutex
	left := map[string]int{
		"done": 3, "result": 1, "retry": 2, "skip": 1, "revoke": 1, "snooze": 2, "panic": 1, "cancel": 1, "soon": 1, "all": 2, "abandoned": 1,
	}
	over, started := make(chan struct{}), make(chan struct{})
	ended := func(typename string) {
		mu.Lock()
		defer mu.Unlock()
		if left[typename]--; left[typename] == 0 {
			delete(left, typename)
		}
		if len(left) == 0 {
			close(over)
		}
	}
	var retried, snoozed atomic.Bool
	srv := asynq.NewServer(r.As("worker"), asynq.Config{
		Concurrency: 4, Queues: map[string]int{"default": 2, "other": 1, "abandoned": 1}, LogLevel: asynq.FatalLevel,
		RetryDelayFunc:  func(int, error, *asynq.Task) time.Duration { return time.Second },
		GroupAggregator: asynq.GroupAggregatorFunc(func(string, []*asynq.Task) *asynq.Task { return asynq.NewTask("all", nil) }),
		GroupMaxSize:    3, GroupGracePeriod: time.Second, QueueConfigs: map[string]asynq.QueueConfig{"other": {Ordered: true}},
	})
	err := srv.Start(asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		if task.Type() == "stuck" {
			close(started)
			<-ctx.Done()
			return ctx.Err()
		}
		defer ended(task.Type())
		switch task.Type() {
		case "result":
			_, err := task.ResultWriter().Write([]byte("result"))
			return err
		case "retry":
			if !retried.Swap(true) {
				return errors.New("failed")
			}
		case "skip":
			return asynq.SkipRetry
		case "revoke":
			return asynq.RevokeTask
		case "snooze":
			if !snoozed.Swap(true) {
				return asynq.Snooze(time.Second)
			}
		case "panic":
			panic("panic")
		case "cancel":
			if err := inspector.CancelAndDelete(ctx, "cancel"); err != nil {
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceFunc(srv.Shutdown)
	t.Cleanup(stop)
	select {
	case <-over:
	case <-time.After(time.Minute):
		mu.Lock()
		t.Errorf("not processed after a minute: %v", left)
		mu.Unlock()
	}
	if _, err := asynq.NewClient(r.As("worker")).Enqueue(asynq.NewTask("stuck", nil), asynq.TaskID("stuck")); err != nil {
		t.Error(err)
	}
	<-started
	stop() // returns the task to the queue
	if task, err := inspector.GetTaskInfo("default", "stuck"); err != nil || task.State != asynq.TaskStatePending {
		t.Errorf("%+v, error %v; want the task pending again", task, err)
	}
}

// abandon creates a task with an expired lease and without a worker.
func abandon(t *testing.T, r *acltest.Redis) {
	t.Helper()
	client := asynq.NewClient(r.As("producer"))
	t.Cleanup(func() { _ = client.Close() })
	if _, err := client.Enqueue(asynq.NewTask("abandoned", nil), asynq.Queue("abandoned"), asynq.TaskID("a"), asynq.MaxRetry(3)); err != nil {
		t.Fatal(err)
	}
	receiver := asynq.NewReceiver(r.As("worker"), asynq.ReceiverConfig{Queues: map[string]int{"abandoned": 1}, LogLevel: asynq.FatalLevel})
	if err := receiver.Start(); err != nil {
		t.Fatal(err)
	}
	leases, err := receiver.Receive(t.Context(), 1, "abandoned")
	if err != nil || len(leases) != 1 {
		t.Fatalf("%d leases, error %v", len(leases), err)
	}
	receiver.Shutdown()
	r.Do("ZADD", "asynq:{abandoned}:lease", 1, "a")
}

// seedSchedules runs a scheduler with a group and a periodic task manager, with the role scheduler,
// until each has enqueued a task.
func seedSchedules(t *testing.T, r *acltest.Redis) (entryID string) {
	t.Helper()
	enqueued := make(chan struct{}, 100)
	opts := func() *asynq.SchedulerOpts {
		return &asynq.SchedulerOpts{
			Group: "g", LogLevel: asynq.FatalLevel, HeartbeatInterval: 100 * time.Millisecond,
			PostEnqueueFunc: func(_ *asynq.TaskInfo, err error) {
				if err != nil {
					t.Error(err)
				}
				enqueued <- struct{}{}
			},
		}
	}
	sched := asynq.NewScheduler(r.As("scheduler"), opts())
	entryID, err := sched.Register("@every 1s", asynq.NewTask("tick", nil), asynq.Queue("ticks"))
	if err != nil {
		t.Fatal(err)
	}
	alone := opts()
	alone.Group = ""
	manager, err := asynq.NewPeriodicTaskManager(asynq.PeriodicTaskManagerOpts{
		RedisConnOpt: r.As("scheduler"), SchedulerOpts: alone,
		PeriodicTaskConfigProvider: provider{{Cronspec: "@every 1s", Task: asynq.NewTask("periodic", nil), Opts: []asynq.Option{asynq.Queue("ticks")}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(sched.Start(), manager.Start()); err != nil {
		t.Fatal(err)
	}
	for range 6 {
		<-enqueued
	}
	t.Cleanup(sched.Shutdown)
	manager.Shutdown()
	return entryID
}

type provider []*asynq.PeriodicTaskConfig

func (p provider) GetConfigs() ([]*asynq.PeriodicTaskConfig, error) { return p, nil }

// A scheduler enqueues ticks with only the permissions of docs/ACL.md.
func TestACLScheduler(t *testing.T) {
	t.Parallel()
	r := acltest.Start(t)
	seedSchedules(t, r)
}

// asRole returns a function that runs commands with the user of a role.
func asRole(t *testing.T, r *acltest.Redis, role string) func(line string) result {
	w := &world{t: t, home: t.TempDir(), env: map[string]string{}}
	return func(line string) result {
		return w.raw(t.Context(), append([]string{"--uri", r.URI(role)}, words(line)...)...)
	}
}

// An observer can read everything and change nothing.
func TestACLObserver(t *testing.T) {
	t.Parallel()
	r := acltest.Start(t)
	enqueueAllKinds(t, r.As("producer"))
	entry := seedSchedules(t, r)
	srv := asynq.NewServer(r.As("worker"), asynq.Config{Queues: map[string]int{"other": 1}, LogLevel: asynq.FatalLevel})
	done := make(chan struct{}, 2)
	err := srv.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		done <- struct{}{}
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Shutdown)
	<-done
	<-done
	if denied := r.Denied(); len(denied) > 0 {
		t.Errorf("denied: %q", denied)
	}

	run := asRole(t, r, "observer")
	export := filepath.Join(t.TempDir(), "export")
	for _, line := range []string{
		"stats", "stats types", "stats types -q default", "stats history", "stats history -t done", "queue ls -o wide", "queue ls -o json", "queue inspect default other", "queue history default", "queue top --once -i 100ms",
		"group ls", "task ls", "task ls --all -o wide", "task ls -q default -s pending --page 2 --size 2", "task ls --filter type:done",
		"task ls -q default -s scheduled", "task ls -q default -s retry", "task ls -q default -s archived", "task ls -q other -s completed",
		"task ls -q default -g g", "task inspect -q other result", "task wait -q other result", "cron ls", "cron history " + entry, "server ls -o json",
		"export default " + export, "task deleteall -q default -s pending --dry-run", "task archiveall -q default -s pending --dry-run",
	} {
		if res := run(line); res.code != ExitDone {
			t.Errorf("%s: %+v", line, res)
		}
	}
	w := &world{t: t, namespace: "asynq", env: map[string]string{}}
	url, stop := w.export("--uri", r.URI("observer"), "--flows", "100")
	if _, body := fetch(t, url); !strings.Contains(body, `asynq_queue_memory_usage_approx_bytes{queue="default"}`) || strings.Contains(body, "_success{part=\"queues\"} 0") {
		t.Errorf("metrics: %s", body)
	}
	_, _ = stop()
	web, stop := w.serveWeb("--uri", r.URI("observer"), "--listen", "127.0.0.1:0", "--read-only")
	for _, page := range []string{
		"/", "/queue?queue=default", "/tasks?queue=default&state=pending", "/task?queue=other&id=result", "/groups", "/servers", "/schedulers",
		"/api/v2/queues", "/api/v2/queues/default/tasks?state=pending", "/api/v2/servers", "/api/queues",
	} {
		resp, err := http.Get(web + page)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", page, resp.Status)
		}
	}
	_, _ = stop()
	if denied := r.Denied(); len(denied) > 0 {
		t.Errorf("the observer was denied %q", denied)
	}

	srv.Shutdown()
	dump := func() map[string]string {
		keys := r.Dump()
		// The scheduler is still running.
		maps.DeleteFunc(keys, func(key, _ string) bool { return strings.Contains(key, "sched") || strings.Contains(key, "{ticks}") })
		return keys
	}
	before := dump()
	for _, line := range []string{
		"queue pause default", "queue remove default --force --yes", "task run -q default later", "task archive -q default later",
		"task delete -q default later", "task cancel cancel", "task reschedule -q default later --process-in 1s",
		"task update-payload -q default later -l x", "task runall -q default -s scheduled --yes", "task archiveall -q default -s pending --yes",
		"task deleteall -q default -s pending --yes", "task enqueue -t x", "cron run " + entry, "import " + export + " --queue copy",
	} {
		if res := run(line); res.code != ExitFailed || !strings.Contains(res.err, "NOPERM") && !strings.Contains(res.err, "can't run this command") {
			t.Errorf("%s: %+v; want it denied", line, res)
		}
	}
	if len(r.Denied()) == 0 {
		t.Error("nothing was denied")
	}
	if diff := cmp.Diff(before, dump()); diff != "" {
		t.Errorf("the observer changed something:\n%s", diff)
	}
}

// An admin can run all commands.
func TestACLAdmin(t *testing.T) {
	t.Parallel()
	r := acltest.Start(t)
	enqueueAllKinds(t, r.As("producer"))
	entry := seedSchedules(t, r)
	run := asRole(t, r, "admin")
	export := filepath.Join(t.TempDir(), "export")
	for _, line := range []string{
		"queue pause default", "queue resume default", "task archive -q default cancel", "task run -q default cancel",
		"task reschedule -q default later --process-in 2h", "task update-payload -q default later -l x", "task cancel cancel",
		"task archiveall -q default -s pending --filter type:done --yes", "task runall -q default -s archived --yes",
		"export default " + export + " --pause", "import " + export + " --queue copy", "task deleteall -q default -s scheduled --yes",
		"task deleteall -q default -g g --yes", "task archiveall -q default -s pending --yes", "task enqueue -t x", "task delete -q default later",
		"cron run " + entry, "queue remove default --force --yes", "queue remove copy --force --yes", "stats", "queue ls -o json", "server ls", "group ls", "doctor", "status mute no-server --for 1h", "status", "status unmute no-server",
	} {
		if strings.HasPrefix(line, "task delete ") {
			run("task enqueue -t x --id later")
		}
		if res := run(line); res.code != ExitDone {
			t.Errorf("%s: %+v", line, res)
		}
	}
}

// In a Cluster, the roles work with the additional rules of docs/ACL.md.
func TestACLCluster(t *testing.T) {
	t.Parallel()
	r := acltest.StartCluster(t)
	as := func(role string) asynq.RedisConnOpt {
		opt := r.As(role)
		return asynq.RedisClusterClientOpt{Addrs: []string{opt.Addr}, Username: opt.Username, Password: opt.Password}
	}
	enqueueAllKinds(t, as("producer"))
	done := make(chan struct{}, 2)
	srv := asynq.NewServer(as("worker"), asynq.Config{Queues: map[string]int{"other": 1, "default": 1}, LogLevel: asynq.FatalLevel})
	err := srv.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		done <- struct{}{}
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	<-done
	<-done
	srv.Shutdown()
	w := &world{t: t, home: t.TempDir(), env: map[string]string{}}
	for _, line := range []string{"stats", "queue ls -o json", "task ls --all", "server ls", "flow ls"} {
		if res := w.raw(t.Context(), append([]string{"--uri", strings.Replace(r.URI("observer"), "redis:", "redis-cluster:", 1)}, words(line)...)...); res.code != ExitDone {
			t.Errorf("%s: %+v", line, res)
		}
	}
}
