package flow_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/flow"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/internal/testenv"
)

// largeEnv sets the number of members of TestLargeBatch.
const largeEnv = "ASYNQ_FLOW_LARGE"

// A large batch ends with one callback, and no call takes Redis long.
func TestLargeBatch(t *testing.T) {
	t.Parallel()
	members, _ := strconv.Atoi(os.Getenv(largeEnv))
	if members == 0 {
		members = 20_000
	}
	const most = 8 * time.Millisecond // that a call may take
	r := proctest.StartRedis(t, "--slowlog-log-slower-than", strconv.FormatInt(most.Microseconds(), 10))
	opt := asynq.RedisClientOpt{Addr: r.Addr()}
	client := asynq.NewClient(opt)
	inspect := asynq.NewInspector(opt)
	rdb := redis.NewClient(&redis.Options{Addr: r.Addr()})
	t.Cleanup(func() { _, _, _ = client.Close(), inspect.Close(), rdb.Close() })
	ctx := context.Background()

	batch, err := flow.OpenBatch(ctx, client, flow.NewBatch("large").OnSuccess(asynq.NewTask("report", nil)))
	if err != nil {
		t.Fatal(err)
	}
	tasks := make([]*asynq.Task, 10_000)
	for i := range tasks {
		tasks[i] = asynq.NewTask("row", nil)
	}
	for left := members; left > 0; left -= len(tasks) {
		if _, err := batch.Enqueue(ctx, tasks[:min(left, len(tasks))]); err != nil {
			t.Fatal(err)
		}
	}
	if err := batch.Close(ctx); err != nil {
		t.Fatal(err)
	}
	var ran, reports atomic.Int64
	done := make(chan struct{})
	srv := asynq.NewServer(opt, asynq.Config{Concurrency: 100, LogLevel: asynq.FatalLevel})
	if err := srv.Start(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		if task.Type() == "row" {
			ran.Add(1)
			return nil
		}
		if n := ran.Load(); n != int64(members) {
			t.Errorf("the report runs after %d of %d members", n, members)
		}
		if reports.Add(1) == 1 {
			close(done)
		}
		return nil
	})); err != nil {
		t.Fatal(err)
	}
	defer srv.Shutdown()
	select {
	case <-done:
	case <-time.After(testenv.Timeout + time.Duration(members)*100*time.Microsecond):
		t.Fatalf("no report after %d of %d members", ran.Load(), members)
	}
	var slow []string
	for _, entry := range rdb.SlowLogGet(ctx, 100).Val() {
		if entry.Args[0] != "save" {
			slow = append(slow, fmt.Sprint(entry.Duration, " ", entry.Args[:min(len(entry.Args), 4)]))
		}
	}
	t.Logf("%d members, used memory %s, %d calls of more than %v: %v", members,
		rdb.InfoMap(ctx, "memory").Item("Memory", "used_memory_peak_human"), len(slow), most, slow)
	if os.Getenv(largeEnv) != "" && len(slow) > 0 { // on a busy machine, any call may be interrupted
		t.Errorf("%d calls took more than %v: %v", len(slow), most, slow)
	}
}
