package guarantee_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
)

// wantDuplicate reports an error unless err is an ErrDuplicateTask that names the holder of a lock.
func wantDuplicate(env *testenv.Env, err error, queue, holder string) {
	env.T.Helper()
	var duplicate *asynq.DuplicateTaskError
	if !errors.Is(err, asynq.ErrDuplicateTask) || !errors.As(err, &duplicate) || duplicate.TaskID != holder || duplicate.Queue != queue {
		env.T.Errorf("error %#v, want a duplicate of %q in queue %q", err, holder, queue)
		return
	}
	if text := err.Error(); !strings.Contains(text, asynq.ErrDuplicateTask.Error()) || !strings.Contains(text, holder) {
		env.T.Errorf("the error %q does not name the duplicate and %q", text, holder)
	}
}

// A rejected duplicate names the task that holds its lock, alone and in batches.
func TestDuplicateNamesHolder(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		env.Enqueue("t", asynq.Unique(time.Hour))
		env.Enqueue("u", asynq.Unique(time.Hour), asynq.Queue("other"))
		_, err := env.Client.Enqueue(asynq.NewTask("t", nil), asynq.Unique(time.Hour))
		wantDuplicate(env, err, "default", "t")
		tasks := []*asynq.Task{
			asynq.NewTask("new", nil), asynq.NewTask("u", nil, asynq.Queue("other")), asynq.NewTask("t", nil), asynq.NewTask("v", nil, asynq.TaskID("v")),
			asynq.NewTask("v", nil),
		}
		results := env.Client.BatchEnqueueContext(env.Context(), tasks, asynq.Unique(time.Hour))
		if results[0].Err != nil || results[3].Err != nil {
			env.T.Errorf("new tasks: %v, %v", results[0].Err, results[3].Err)
		}
		wantDuplicate(env, results[1].Err, "other", "u")
		wantDuplicate(env, results[2].Err, "default", "t")
		wantDuplicate(env, results[4].Err, "default", "v")
	})
}

// A holder that is gone by the time of the read, or that cannot be read, leaves the ID empty.
func TestDuplicateWithoutHolder(t *testing.T) {
	t.Parallel()
	env := newMiniredis(t)
	env.Enqueue("t", asynq.Unique(time.Hour))
	p, opt := env.Proxy()
	opt.Params = "max_retries=-1"
	client := env.NewClient(opt)
	again := func(ctx context.Context) error {
		_, err := client.EnqueueContext(ctx, asynq.NewTask("t", nil), asynq.Unique(time.Hour))
		return err
	}
	read := "\r\n$3\r\nget\r\n" // the command that reads the lock
	for _, reply := range []string{"$-1\r\n", "-ERR broken\r\n"} {
		p.Answer(1, reply, read)
		if err := again(env.Context()); !errors.Is(err, asynq.ErrDuplicateTask) || err.Error() != asynq.ErrDuplicateTask.Error() {
			t.Errorf("the read returns %q: error %v", reply, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	f := p.Answer(1, "", read)
	go func() {
		<-f.Done()
		cancel()
	}()
	if err := again(ctx); !errors.Is(err, asynq.ErrDuplicateTask) {
		t.Errorf("ctx ends during the read: error %v", err)
	}
	p.Cut()
	wantDuplicate(env, again(context.Background()), "default", "t")
}
