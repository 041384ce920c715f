// Package usage is a program written for the reference that uses most of its API. The tests of
// package parity compile it with this library.
package usage

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// Connections returns all kinds of connection options.
func Connections(uri string) ([]asynq.RedisConnOpt, error) {
	parsed, err := asynq.ParseRedisURI(uri)
	if err != nil {
		return nil, err
	}
	return []asynq.RedisConnOpt{
		parsed,
		asynq.RedisClientOpt{
			Network: "tcp", Addr: "localhost:6379", Username: "u", Password: "p", DB: 1, DialTimeout: time.Second,
			ReadTimeout: time.Second, WriteTimeout: time.Second, PoolSize: 5, TLSConfig: &tls.Config{MinVersion: tls.VersionTLS13},
		},
		&asynq.RedisFailoverClientOpt{
			MasterName: "m", SentinelAddrs: []string{"localhost:26379"}, SentinelUsername: "s", SentinelPassword: "t", DB: 2, PoolSize: 3,
		},
		asynq.RedisClusterClientOpt{Addrs: []string{"localhost:7000"}, MaxRedirects: 4},
	}, nil
}

// Enqueue uses a client and all options.
func Enqueue(ctx context.Context, r asynq.RedisConnOpt, c redis.UniversalClient) (err error) {
	client, shared := asynq.NewClient(r), asynq.NewClientFromRedisClient(c)
	defer func() { err = errors.Join(err, client.Close(), shared.Ping()) }()

	options := []asynq.Option{
		asynq.MaxRetry(3), asynq.Queue("low"), asynq.Timeout(time.Minute), asynq.Deadline(time.Now().Add(time.Hour)),
		asynq.Unique(time.Hour), asynq.ProcessAt(time.Now()), asynq.ProcessIn(time.Minute), asynq.TaskID("id"),
		asynq.Retention(time.Hour), asynq.Group("g"),
	}
	for _, o := range options {
		switch o.Type() {
		case asynq.MaxRetryOpt, asynq.QueueOpt, asynq.TimeoutOpt, asynq.DeadlineOpt, asynq.UniqueOpt, asynq.ProcessAtOpt,
			asynq.ProcessInOpt, asynq.TaskIDOpt, asynq.RetentionOpt, asynq.GroupOpt:
			fmt.Println(o.String(), o.Value())
		}
	}
	task := asynq.NewTask("email:welcome", []byte(`{}`), options...)
	withHeaders := asynq.NewTaskWithHeaders("email:welcome", nil, map[string]string{"trace": "1"}, asynq.MaxRetry(1))
	info, err := client.EnqueueContext(ctx, task, asynq.Queue("high"))
	switch {
	case errors.Is(err, asynq.ErrDuplicateTask), errors.Is(err, asynq.ErrTaskIDConflict):
		return nil
	case err != nil:
		return err
	}
	printInfo(info)
	info, err = shared.Enqueue(withHeaders)
	printInfo(info)
	return err
}

func printInfo(info *asynq.TaskInfo) {
	attempts := []int{info.MaxRetry, info.Retried}
	times := []time.Time{info.LastFailedAt, info.Deadline, info.NextProcessAt, info.CompletedAt}
	durations := []time.Duration{info.Timeout, info.Retention}
	fmt.Println(info.ID, info.Queue, info.Type, string(info.Payload), info.Group, info.LastErr, string(info.Result), info.IsOrphaned)
	fmt.Println(info.Headers["trace"], attempts, times, durations, info.State.String(), info.State == asynq.TaskStateCompleted)
}

type handler struct{}

func (*handler) ProcessTask(ctx context.Context, t *asynq.Task) error {
	id, _ := asynq.GetTaskID(ctx)
	queue, _ := asynq.GetQueueName(ctx)
	retried, _ := asynq.GetRetryCount(ctx)
	most, ok := asynq.GetMaxRetry(ctx)
	if !ok || id != t.ResultWriter().TaskID() {
		return fmt.Errorf("no handler's context: %w", asynq.SkipRetry)
	}
	if queue == "revoked" {
		return asynq.RevokeTask
	}
	_, err := fmt.Fprintf(t.ResultWriter(), "%s %s %v %d/%d", t.Type(), t.Payload(), t.Headers(), retried, most)
	return err
}

type quiet struct{}

func (quiet) Debug(...interface{})      {}
func (quiet) Info(...interface{})       {}
func (quiet) Warn(...interface{})       {}
func (quiet) Error(...interface{})      {}
func (quiet) Fatal(args ...interface{}) { log.Fatal(args...) }

// Serve uses a server with each field of its configuration, and a mux.
func Serve(r asynq.RedisConnOpt, c redis.UniversalClient) error {
	level := asynq.WarnLevel
	flag.Var(&level, "log", "the lowest level")
	if err := level.Set("debug"); err != nil {
		return err
	}
	cfg := asynq.Config{
		Concurrency:              10,
		BaseContext:              context.Background,
		TaskCheckInterval:        time.Second,
		RetryDelayFunc:           asynq.DefaultRetryDelayFunc,
		IsFailure:                func(err error) bool { return !asynq.IsPanicError(err) && !errors.Is(err, asynq.ErrLeaseExpired) },
		Queues:                   map[string]int{"high": 6, "low": 1},
		StrictPriority:           true,
		ErrorHandler:             asynq.ErrorHandlerFunc(func(_ context.Context, t *asynq.Task, err error) { log.Print(t.Type(), err) }),
		Logger:                   quiet{},
		LogLevel:                 asynq.InfoLevel,
		ShutdownTimeout:          time.Second,
		HealthCheckFunc:          func(err error) { log.Print(err) },
		HealthCheckInterval:      time.Second,
		DelayedTaskCheckInterval: time.Second,
		GroupGracePeriod:         time.Minute,
		GroupMaxDelay:            time.Hour,
		GroupMaxSize:             10,
		GroupAggregator: asynq.GroupAggregatorFunc(func(group string, tasks []*asynq.Task) *asynq.Task {
			return asynq.NewTask(group, tasks[0].Payload())
		}),
		JanitorInterval:  time.Second,
		JanitorBatchSize: 100,
	}
	mux := asynq.NewServeMux()
	mux.Use(func(next asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error { return next.ProcessTask(ctx, t) })
	})
	mux.Handle("email:", &handler{})
	mux.HandleFunc("image:", func(context.Context, *asynq.Task) error { return nil })
	found, pattern := mux.Handler(asynq.NewTask("email:welcome", nil))
	if pattern == "" || found == nil {
		return asynq.NotFoundHandler().ProcessTask(context.Background(), nil)
	}
	srv, shared := asynq.NewServer(r, cfg), asynq.NewServerFromRedisClient(c, cfg)
	if err := srv.Start(mux); errors.Is(err, asynq.ErrServerClosed) {
		return err
	}
	srv.Stop()
	srv.Shutdown()
	if err := shared.Ping(); err != nil {
		return err
	}
	return shared.Run(asynq.HandlerFunc(asynq.NotFound))
}

type provider struct{}

func (provider) GetConfigs() ([]*asynq.PeriodicTaskConfig, error) {
	return []*asynq.PeriodicTaskConfig{{
		Cronspec: "@every 1h", Task: asynq.NewTask("report", nil), Opts: []asynq.Option{asynq.Queue("low")},
	}}, nil
}

// Schedule uses a scheduler and a manager of periodic tasks.
func Schedule(r asynq.RedisConnOpt, c redis.UniversalClient) error {
	opts := &asynq.SchedulerOpts{
		HeartbeatInterval:   time.Second,
		Logger:              quiet{},
		LogLevel:            asynq.ErrorLevel,
		Location:            time.UTC,
		PreEnqueueFunc:      func(t *asynq.Task, opts []asynq.Option) { log.Print(t.Type(), len(opts)) },
		PostEnqueueFunc:     func(info *asynq.TaskInfo, err error) { log.Print(info, err) },
		EnqueueErrorHandler: func(t *asynq.Task, _ []asynq.Option, err error) { log.Print(t.Type(), err) }, //nolint:staticcheck // deprecated, but used
	}
	scheduler, shared := asynq.NewScheduler(r, opts), asynq.NewSchedulerFromRedisClient(c, nil)
	id, err := scheduler.Register("0 9 * * *", asynq.NewTask("report", nil), asynq.Queue("low"))
	if err != nil {
		return err
	}
	if err := errors.Join(scheduler.Start(), scheduler.Ping(), scheduler.Unregister(id)); err != nil {
		return err
	}
	scheduler.Shutdown()
	manager, err := asynq.NewPeriodicTaskManager(asynq.PeriodicTaskManagerOpts{
		PeriodicTaskConfigProvider: provider{},
		RedisConnOpt:               r,
		RedisUniversalClient:       c,
		SchedulerOpts:              opts,
		SyncInterval:               time.Minute,
	})
	if err != nil {
		return err
	}
	if err := manager.Start(); err != nil {
		return err
	}
	manager.Shutdown()
	return errors.Join(manager.Run(), shared.Run())
}

// Read uses the reading methods of an Inspector.
func Read(r asynq.RedisConnOpt, c redis.UniversalClient) (err error) {
	i := asynq.NewInspector(r)
	defer func() { err = errors.Join(err, asynq.NewInspectorFromRedisClient(c).Close()) }()
	queues, err := i.Queues()
	for _, q := range queues {
		info, err := i.GetQueueInfo(q)
		if errors.Is(err, asynq.ErrQueueNotFound) {
			continue
		}
		fmt.Println(info.Queue, info.MemoryUsage/1024, info.Latency.Seconds(), info.Size, info.Groups, info.Pending, info.Active,
			info.Scheduled, info.Retry, info.Archived, info.Completed, info.Aggregating, info.Processed, info.Failed,
			info.ProcessedTotal, info.FailedTotal, info.Paused, info.Timestamp.Unix())
		for _, list := range []func(string, ...asynq.ListOption) ([]*asynq.TaskInfo, error){
			i.ListActiveTasks, i.ListPendingTasks, i.ListScheduledTasks, i.ListRetryTasks, i.ListArchivedTasks, i.ListCompletedTasks,
		} {
			tasks, err := list(q, asynq.Page(1), asynq.PageSize(10))
			fmt.Println(tasks, err)
		}
		groups, err := i.Groups(q)
		for _, g := range groups {
			tasks, listErr := i.ListAggregatingTasks(q, g.Group)
			fmt.Println(tasks, err, listErr, g.Size)
		}
		days, err := i.History(q, 7)
		for _, d := range days {
			fmt.Println(d.Queue, d.Processed, d.Failed, d.Date.Day(), err)
		}
		slot, err := i.ClusterKeySlot(q)
		nodes, nodesErr := i.ClusterNodes(q)
		for _, n := range nodes {
			fmt.Println(n.ID, n.Addr, slot, err, nodesErr)
		}
	}
	servers, err := i.Servers()
	for _, s := range servers {
		fmt.Println(s.ID, s.Host, s.PID, s.Concurrency, s.Queues["default"], s.StrictPriority, s.Started.Unix(), s.Status)
		for _, w := range s.ActiveWorkers {
			fmt.Println(w.TaskID, w.TaskType, string(w.TaskPayload), w.Queue, w.Started.Unix(), w.Deadline.Unix())
		}
	}
	entries, err := i.SchedulerEntries()
	for _, e := range entries {
		events, err := i.ListSchedulerEnqueueEvents(e.ID, asynq.PageSize(5))
		for _, event := range events {
			fmt.Println(event.TaskID, event.EnqueuedAt.Unix(), err)
		}
		fmt.Println(e.Spec, e.Task.Type(), e.Opts, e.Next.Unix(), e.Prev.IsZero())
	}
	return err
}

// Change uses the changing methods of an Inspector.
func Change(i *asynq.Inspector, out io.Writer) error {
	for _, all := range []func(string) (int, error){
		i.RunAllScheduledTasks, i.RunAllRetryTasks, i.RunAllArchivedTasks, i.ArchiveAllPendingTasks, i.ArchiveAllScheduledTasks,
		i.ArchiveAllRetryTasks, i.DeleteAllPendingTasks, i.DeleteAllScheduledTasks, i.DeleteAllRetryTasks, i.DeleteAllArchivedTasks,
		i.DeleteAllCompletedTasks,
	} {
		n, err := all("low")
		fmt.Fprintln(out, n, err)
	}
	for _, all := range []func(string, string) (int, error){
		i.RunAllAggregatingTasks, i.ArchiveAllAggregatingTasks, i.DeleteAllAggregatingTasks,
	} {
		n, err := all("low", "group")
		fmt.Fprintln(out, n, err)
	}
	for _, one := range []func(string, string) error{i.RunTask, i.ArchiveTask, i.DeleteTask} {
		if err := one("low", "id"); errors.Is(err, asynq.ErrTaskNotFound) {
			fmt.Fprintln(out, err)
		}
	}
	info, err := i.GetTaskInfo("low", "id")
	if err == nil {
		err = i.UpdateTaskPayload(info.Queue, info.ID, []byte("new"))
	}
	if errors.Is(i.DeleteQueue("low", false), asynq.ErrQueueNotEmpty) {
		err = errors.Join(err, i.DeleteQueue("low", true))
	}
	return errors.Join(err, i.PauseQueue("low"), i.UnpauseQueue("low"), i.CancelProcessing("id"))
}
