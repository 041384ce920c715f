package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
)

// lease is the lease duration of tests in which no lease expires.
const lease = 10 * time.Second

// completed waits until a queue contains only this number of completed tasks, and checks their
// results.
func completed(t *testing.T, s *env, queue string, want int) {
	t.Helper()
	i := s.inspector(t)
	proctest.Eventually(t, "all tasks are completed", func() bool {
		info, err := i.GetQueueInfo(queue)
		return err == nil && info.Completed == want && info.Size == want
	})
	tasks, err := i.ListCompletedTasks(queue, asynq.PageSize(want))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		var payload, result struct{ N int }
		if err := json.Unmarshal(task.Payload, &payload); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(task.Result, &result); err != nil || result != payload {
			t.Errorf("task %s: result %s (%v) of the payload %s", task.ID, task.Result, err, task.Payload)
		}
	}
}

func TestPHPProducerAndPHPWorker(t *testing.T) {
	t.Parallel()
	s := newEnv(t, lease)
	log := newLogbook(t)
	w := s.php(t, "worker.php", log.path, "10", "0", "mail")
	s.php(t, "produce.php", "200", "mail:1").wait(t)
	completed(t, s, "mail", 200)
	w.term(t) // ends at once, although it waits for tasks
	if lines := log.lines(); !strings.HasPrefix(lines[len(lines)-1], "stopped") {
		t.Errorf("the worker did not shut down cleanly: %q", lines[len(lines)-1])
	}
}

func TestGoProducerAndPHPWorker(t *testing.T) {
	t.Parallel()
	s := newEnv(t, lease)
	s.php(t, "worker.php", newLogbook(t).path, "10", "0", "mail")
	c := asynq.NewClient(asynq.RedisClientOpt{Addr: s.redis})
	t.Cleanup(func() { _ = c.Close() })
	for n := range 100 {
		task := asynq.NewTask("mail", fmt.Appendf(nil, `{"n":%d}`, n), asynq.Queue("mail"), asynq.Retention(time.Hour))
		if _, err := c.Enqueue(task); err != nil {
			t.Fatal(err)
		}
	}
	completed(t, s, "mail", 100)
}

func TestPHPProducerAndGoWorker(t *testing.T) {
	t.Parallel()
	s := newEnv(t, lease)
	mux := asynq.NewServeMux()
	mux.HandleFunc("mail", func(_ context.Context, task *asynq.Task) error {
		_, err := task.ResultWriter().Write(task.Payload())
		return err
	})
	server := asynq.NewServer(asynq.RedisClientOpt{Addr: s.redis}, asynq.Config{Queues: map[string]int{"mail": 1}, LogLevel: asynq.ErrorLevel})
	if err := server.Start(mux); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	s.php(t, "produce.php", "200", "mail:1").wait(t)
	completed(t, s, "mail", 200)
}

// A handler whose call takes longer than the lease duration keeps its lease: another process
// extends it.
func TestPHPHandlerExceedsLeaseDuration(t *testing.T) {
	t.Parallel()
	s := newEnv(t, time.Second)
	log := newLogbook(t)
	s.php(t, "worker.php", log.path, "1", "0", "slow")
	c := asynq.NewClient(asynq.RedisClientOpt{Addr: s.redis})
	t.Cleanup(func() { _ = c.Close() })
	if _, err := c.Enqueue(asynq.NewTask("slow", []byte(`{"n":1,"busy":3.5}`)), asynq.Queue("slow"), asynq.Retention(time.Hour)); err != nil {
		t.Fatal(err)
	}
	completed(t, s, "slow", 1)
	if lines := log.lines(); len(lines) != 2 || !strings.HasPrefix(lines[1], "end slow 1 1 ") {
		t.Errorf("the worker logged %q, want one attempt", lines)
	}
}

// RetryLater sets the retry delay, and the task of a killed worker goes to another one.
func TestPHPWorkerRetriesAndCrashes(t *testing.T) {
	t.Parallel()
	s := newEnv(t, time.Second)
	log := newLogbook(t)
	w := s.php(t, "worker.php", log.path, "1", "0", "mail")
	c := asynq.NewClient(asynq.RedisClientOpt{Addr: s.redis})
	t.Cleanup(func() { _ = c.Close() })
	if _, err := c.Enqueue(asynq.NewTask("mail", []byte(`{"n":1,"fail":1}`)), asynq.Queue("mail"), asynq.Retention(time.Hour)); err != nil {
		t.Fatal(err)
	}
	completed(t, s, "mail", 1)
	if _, err := c.Enqueue(asynq.NewTask("mail", []byte(`{"n":2,"busy":60}`), asynq.Queue("mail"), asynq.Retention(time.Hour))); err != nil {
		t.Fatal(err)
	}
	proctest.Eventually(t, "the worker is active", func() bool { return len(log.lines()) == 4 })
	w.kill()
	s.php(t, "worker.php", log.path, "1", "0", "mail")
	completed(t, s, "mail", 2)
	if lines := log.lines(); len(lines) != 6 || !strings.HasPrefix(lines[5], "end mail 2 2 ") {
		t.Errorf("the workers logged %q, want a second attempt at the end", lines)
	}
}
