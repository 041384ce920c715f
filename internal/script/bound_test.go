package script_test

import (
	"context"
	"errors"
	"testing"
	"testing/fstest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/redistest"
	"github.com/asynq-go/asynq/internal/script"
)

// gate is a hook that delays the replies of all commands, after their execution.
type gate struct {
	executed chan redis.Cmder // each command
	open     chan struct{}    // if it is closed, replies are delivered
}

func newGate() *gate { return &gate{executed: make(chan redis.Cmder, 10), open: make(chan struct{})} }

func (g *gate) DialHook(next redis.DialHook) redis.DialHook { return next }

func (g *gate) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		g.pass(cmd)
		return err
	}
}

func (g *gate) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		g.pass(cmds[0])
		return err
	}
}

func (g *gate) pass(cmd redis.Cmder) {
	select {
	case <-g.open:
		return
	default:
	}
	switch cmd.Name() { // not those of a new connection
	case "set", "multi", "evalsha":
		g.executed <- cmd
		<-g.open
	}
}

// gated returns a client of r whose replies pass a gate.
func gated(t *testing.T, r *redistest.Redis) (*redis.Client, *gate) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: r.Addr, DB: r.DB})
	g := newGate()
	client.AddHook(g)
	t.Cleanup(func() { _ = client.Close() })
	return client, g
}

// Commands of a bounded client return when their context ends, and do not share memory with those
// that are still executed.
func TestBoundedCommandsEndWithContext(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		inner, g := gated(t, r)
		client := script.Bounded(inner)
		for name, call := range map[string]func(ctx context.Context) error{
			"single":   func(ctx context.Context) error { return client.Set(ctx, "k", "v", 0).Err() },
			"pipeline": func(ctx context.Context) error { return pipelined(ctx, client.Pipeline()) },
			"tx":       func(ctx context.Context) error { return pipelined(ctx, client.TxPipeline()) },
		} {
			ctx, cancel := context.WithCancel(context.Background())
			result := make(chan error, 1)
			go func() { result <- call(ctx) }()
			<-g.executed
			cancel()
			if err := <-result; !errors.Is(err, context.Canceled) {
				t.Errorf("%s: error %v", name, err)
			}
			if err := call(ctx); !errors.Is(err, context.Canceled) || len(g.executed) > 0 {
				t.Errorf("%s, canceled before: error %v, %d commands sent", name, err, len(g.executed))
			}
		}
		close(g.open)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		for _, ctx := range []context.Context{ctx, context.Background()} {
			if v, err := client.Get(ctx, "k").Result(); v != "v" || err != nil {
				t.Errorf("get: %q, error %v", v, err)
			}
			for _, pipe := range []redis.Pipeliner{client.Pipeline(), client.TxPipeline()} {
				if err := pipelined(ctx, pipe); err != nil {
					t.Error(err)
				}
			}
			if err := client.LLen(ctx, "k").Err(); !script.Refused(err) {
				t.Errorf("a command that Redis rejects: error %v", err)
			}
		}
	})
}

func pipelined(ctx context.Context, pipe redis.Pipeliner) error {
	set, get := pipe.Set(ctx, "p", "v", 0), pipe.Get(ctx, "p")
	_, err := pipe.Exec(ctx)
	if err == nil && (set.Err() != nil || get.Val() != "v") {
		return errors.New("a command of the pipeline has no reply")
	}
	if err != nil && (set.Err() == nil || get.Err() == nil) {
		return errors.New("a command of the pipeline has no error")
	}
	return err
}

// A context that cannot end costs neither a goroutine nor a copy of the command.
func TestBoundedPassesCommandsOn(t *testing.T) {
	t.Parallel()
	var sent redis.Cmder
	inner := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = inner.Close() })
	inner.AddHook(&intercept{process: func(cmd redis.Cmder) { sent = cmd }})
	if cmd := script.Bounded(inner).Get(context.Background(), "k"); sent != cmd {
		t.Error("the client has sent a copy")
	}
}

// intercept is a hook that answers all commands itself.
type intercept struct{ process func(cmd redis.Cmder) }

func (i *intercept) DialHook(next redis.DialHook) redis.DialHook { return next }

func (i *intercept) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		i.process(cmd)
		return cmd.Err()
	}
}

func (i *intercept) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

var echoScript = script.Load(fstest.MapFS{"lua/echo.lua": {Data: []byte("-- ARGV[1] text\nreturn ARGV[1]\n")}}, "echo")

// A call with Late returns the reply that arrives shortly after its context has ended.
func TestLateCallWaitsForItsReply(t *testing.T) {
	redistest.Each(t, func(t *testing.T, r *redistest.Redis) {
		inner, g := gated(t, r)
		conn := script.NewConn(script.Bounded(inner), "")
		r.Client().ScriptLoad(context.Background(), "return ARGV[1]\n")
		ctx, cancel := context.WithCancel(context.Background())
		call := script.NewCall(echoScript, 1).Arg("text")
		call.Late = true
		done := make(chan struct{})
		go func() { defer close(done); conn.Run(ctx, call) }()
		<-g.executed
		cancel()
		time.AfterFunc(10*time.Millisecond, func() { close(g.open) })
		<-done
		if reply := call.Read(); reply.Text() != "text" {
			t.Errorf("error %v", reply.Err())
		}
	})
}

// The sequence of a call that may still be executed is not used for another one.
func TestSequenceOfCanceledCallIsDropped(t *testing.T) {
	t.Parallel()
	queue := script.NewConn(nil, "").Queue("q")
	ctx, cancel := context.WithCancel(context.Background())
	first := queue.AcquireSequence()
	queue.ReleaseSequence(ctx, first)
	if again := queue.AcquireSequence(); again != first {
		t.Error("the sequence is not used again")
	}
	cancel()
	queue.ReleaseSequence(ctx, first)
	if again := queue.AcquireSequence(); again == first {
		t.Error("the sequence of a canceled call is used again")
	}
}
