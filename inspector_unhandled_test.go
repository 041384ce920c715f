package asynq_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/testenv"
)

// patterned is a handler with patterns of its own.
type patterned struct {
	asynq.Handler
	patterns func() []string
}

func (p patterned) Patterns() []string { return p.patterns() }

func TestUnhandledTypes(t *testing.T) {
	testenv.Each(t, func(env *testenv.Env) {
		i := env.Inspector()
		ctx := context.Background()
		start := func(h asynq.Handler, queues ...string) *asynq.Server {
			weights := make(map[string]int)
			for _, q := range queues {
				weights[q] = 1
			}
			srv := asynq.NewServer(env.Opt(), asynq.Config{Queues: weights, Logger: asynq.NewSlogLogger(slog.New(env.Log)), UnhandledFor: time.Hour})
			if err := srv.Start(h); err != nil {
				env.T.Fatal(err)
			}
			env.T.Cleanup(srv.Shutdown)
			return srv
		}
		published := func(n int) (infos []*asynq.ServerInfo) {
			env.Eventually(func() bool {
				infos, _ = i.Servers() // fails until n are listed
				return len(infos) == n
			}, "%d servers", n)
			return infos
		}
		want := func(what string, want ...asynq.UnhandledType) {
			env.T.Helper()
			got, err := i.UnhandledTypes(ctx)
			if err != nil || !slices.Equal(got, want) {
				env.T.Errorf("%s: %+v, error %v; want %+v", what, got, err, want)
			}
		}
		for n := range 3 {
			env.Enqueue(fmt.Sprint("new:", n), asynq.Queue("default"))
		}
		env.Enqueue("later", asynq.ProcessIn(time.Hour))
		env.Enqueue("other:1", asynq.Queue("other"))
		want("without servers")

		mux := asynq.NewServeMux()
		mux.HandleFunc("email:", func(context.Context, *asynq.Task) error { return nil })
		mux.HandleFunc("a", func(context.Context, *asynq.Task) error { return nil })
		first := start(mux, "default", "other")
		info := published(1)[0]
		if !slices.Equal(info.Patterns, []string{"a", "email:"}) || !info.Handles("email:welcome") || info.Handles("emai") || info.Handles("new:0") {
			env.T.Errorf("published %+v", info)
		}
		var none *asynq.ServerInfo
		if none.Handles("a") {
			env.T.Error("nil handles a type")
		}
		env.Eventually(func() bool { got, err := i.GetQueueInfo("default"); return err == nil && got.Retry == 3 }, "the tasks to be returned")
		all := []asynq.UnhandledType{{"default", "new:0", 1}, {"default", "new:1", 1}, {"default", "new:2", 1}, {"other", "other:1", 1}}
		want("one server", all...)
		if got, err := i.UnhandledTypes(ctx, "other", "unknown"); err != nil || !slices.Equal(got, all[3:]) {
			env.T.Errorf("queue other: %+v, error %v", got, err)
		}
		second := start(patterned{mux, func() []string { return []string{"new:"} }}, "default")
		published(2)
		want("another server handles some", all[3:]...)
		second.Shutdown()
		published(1)
		want("without it again", all...)
		third := start(patterned{mux, func() []string { panic("patterns") }}, "default")
		if infos := published(2); !infos[1].Handles("whatever") {
			env.T.Errorf("published %+v", infos[1])
		}
		want("with a server that handles unknown types", all[3:]...)
		third.Shutdown()
		first.Stop()
		env.Eventually(func() bool { return published(1)[0].Status == "stopped" }, "the stopped server")
		want("only a stopped server")
		first.Shutdown()
		if keys := env.Keys("asynq:servers*"); len(keys) > 0 {
			env.T.Errorf("keys left: %v", keys)
		}
	})
}
