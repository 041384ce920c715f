package script

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"time"

	"github.com/redis/go-redis/v9"
)

// Bounded returns a client that sends the commands of another one, and whose commands return when
// their context ends. go-redis honors a context while it connects, but not while it waits for a
// reply. Commands with a context that cannot end are passed on as they are.
//
// A command that has returned early may still be executed. It holds its connection until the reply
// arrives or the connection times out. Subscriptions and calls with Once are not supported.
func Bounded(client redis.UniversalClient) redis.UniversalClient {
	front := redis.NewClient(&redis.Options{
		Protocol: 2, PoolSize: 1, // it has no connections: bound answers all commands
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("redis: not supported by a bounded client")
		},
	})
	front.AddHook(bound{client})
	return &boundedClient{Client: front, of: client}
}

type boundedClient struct {
	*redis.Client
	of redis.UniversalClient
}

// unbounded returns the client that Bounded was called with, or else the client itself.
func unbounded(client redis.UniversalClient) redis.UniversalClient {
	if b, ok := client.(*boundedClient); ok {
		return b.of
	}
	return client
}

// bound is the hook of a bounded client. It sends all commands with another client.
type bound struct{ to redis.UniversalClient }

// DialHook implements redis.Hook.
func (bound) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (b bound) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return await(ctx, []redis.Cmder{cmd}, func(cmds []redis.Cmder) error { return b.to.Process(ctx, cmds[0]) })
	}
}

// ProcessPipelineHook implements redis.Hook.
func (b bound) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return await(ctx, cmds, func(cmds []redis.Cmder) error {
			pipe := b.to.Pipeline()
			if cmds[0].Name() == "multi" {
				pipe, cmds = b.to.TxPipeline(), cmds[1:len(cmds)-1] // it adds MULTI and EXEC
			}
			for _, cmd := range cmds {
				_ = pipe.Process(ctx, cmd) // queues it; cannot fail
			}
			_, err := pipe.Exec(ctx)
			return err
		})
	}
}

// await sends commands and returns when it has their replies, or when ctx ends. Then the sender may
// still write to its commands, so it gets copies.
func await(ctx context.Context, cmds []redis.Cmder, send func([]redis.Cmder) error) error {
	if ctx.Done() == nil {
		return send(cmds)
	}
	copies := make([]redis.Cmder, len(cmds))
	for i, cmd := range cmds {
		v := reflect.New(reflect.TypeOf(cmd).Elem()) // releases of go-redis before 9.17 have no Clone
		v.Elem().Set(reflect.ValueOf(cmd).Elem())
		copies[i] = v.Interface().(redis.Cmder)
	}
	replied, err := within(ctx, func() error { return send(copies) })
	for i, cmd := range cmds {
		if replied {
			reflect.ValueOf(cmd).Elem().Set(reflect.ValueOf(copies[i]).Elem())
		} else {
			cmd.SetErr(err)
		}
	}
	return err
}

// lastReplyWait limits how long a call with Late waits for its reply after its context has ended.
const lastReplyWait = time.Second

// lateKey is the key of a value that contexts of calls with Late have.
type lateKey struct{}

// within calls f and returns its error. If ctx ends first, it returns the error of ctx, and false;
// f may continue.
func within(ctx context.Context, f func() error) (returned bool, err error) {
	if ctx.Done() == nil {
		return true, f()
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return true, err
	case <-ctx.Done():
	}
	if ctx.Value(lateKey{}) != nil {
		select {
		case err := <-done:
			return true, err
		case <-time.After(lastReplyWait):
		}
	}
	return false, fmt.Errorf("no reply from Redis: %w", ctx.Err())
}
