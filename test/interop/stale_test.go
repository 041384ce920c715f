package interop

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	reference "github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/test/interop/side"
)

// TestReferenceRequeuesRunningTask shows a defect of the reference. It lists expired
// leases and then requeues the tasks one by one without checking the leases again. If this library
// has recovered a task in between, and a server runs it, the task is requeued and runs twice
// concurrently. This requires two servers that recover at the same moment, which the test enforces.
func TestReferenceRequeuesRunningTask(t *testing.T) {
	t.Parallel()
	s, r := newEnv(t), newRecord()
	victim := s.spawn(r, libraries["theirs"])
	s.enqueue(s.client(libraries["theirs"]), side.Task{Type: "block", ID: "id", MaxRetry: 5})
	receive(s, victim.first, "the task to run")
	victim.end(syscall.SIGKILL)
	s.age()

	client := redis.NewClient(&redis.Options{Addr: s.addr})
	s.Cleanup(func() { _ = client.Close() }) // end of the test
	pause := &pauseAfterList{looked: make(chan struct{}, 1), goOn: make(chan struct{})}
	client.AddHook(pause)
	old := reference.NewServerFromRedisClient(client, reference.Config{
		LogLevel:       reference.FatalLevel,
		RetryDelayFunc: func(int, error, *reference.Task) time.Duration { return time.Hour },
	})
	s.must(old.Start(reference.HandlerFunc(func(context.Context, *reference.Task) error { return nil })))
	s.Cleanup(old.Shutdown)
	receive(s, pause.looked, "the reference to list the tasks of crashed servers")

	running, release := make(chan *side.Job, 2), make(chan struct{})
	own := s.serve(libraries["ours"], side.Config{}, func(ctx context.Context, j *side.Job) error {
		running <- j
		<-release
		return nil
	})
	receive(s, running, "this library to recover the task, and to run it")
	close(pause.goOn)
	info := s.await(s.inspector(libraries["ours"]), "id", "retry") // while its handler runs
	if info.Retried != 1 {
		s.Errorf("the task: %+v", info)
	}
	// The outcome of the running handler is rejected, because it has no lease: no other guarantee
	// is violated.
	close(release)
	own.Shutdown()
	if info := s.task(s.inspector(libraries["ours"]), "id"); info.State != "retry" {
		s.Errorf("after the handler ended: %+v", info)
	}
}

// pauseAfterList delays the first reply to a script that lists leases.
type pauseAfterList struct {
	looked, goOn chan struct{}
}

func (*pauseAfterList) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*pauseAfterList) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (p *pauseAfterList) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if args := cmd.Args(); err == nil && len(args) > 3 && fmt.Sprint(args[2]) == "1" && args[3] == leaseKey {
			select {
			case p.looked <- struct{}{}:
			default:
			}
			<-p.goOn
		}
		return err
	}
}
