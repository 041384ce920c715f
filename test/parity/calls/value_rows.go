package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
)

func addValueRows() {
	for _, n := range []int{-1, 0, 1, 2, 3, 4, 5, 6, 7, 8} {
		add(fmt.Sprintf("TaskState(%d).String", n), func(s *site) { s.see("text", asynq.TaskState(n).String()) })
	}
	for _, n := range []int{-1, 0, 1, 2, 3, 4, 5, 6} {
		add(fmt.Sprintf("LogLevel(%d).String", n), func(s *site) {
			l := asynq.LogLevel(n)
			s.see("text", l.String())
		})
	}
	for _, name := range []string{"debug", "info", "warn", "warning", "error", "fatal", "DEBUG", "Info", "", " ", "x", "1"} {
		add(fmt.Sprintf("LogLevel.Set(%q)", name), func(s *site) {
			var l asynq.LogLevel
			s.err(l.Set(name))
			s.see("level", int(l))
		})
	}
	for _, n := range []int{-1, 0, 1, 5, 25, 100} {
		add(fmt.Sprintf("DefaultRetryDelayFunc(%d)", n), func(s *site) {
			least := time.Duration(n*n*n*n+15) * time.Second
			most := least + time.Duration(29*(n+1))*time.Second
			in := true
			for range 200 {
				d := asynq.DefaultRetryDelayFunc(n, nil, nil)
				in = in && d >= least && d <= max(least, most) && d%time.Second == 0
			}
			s.see("within the formula", in)
		})
	}
	add("functions with a context not from a handler", func(s *site) {
		ctx := context.Background()
		id, ok := asynq.GetTaskID(ctx)
		s.see("GetTaskID", fmt.Sprint(id, ok))
		queue, ok := asynq.GetQueueName(ctx)
		s.see("GetQueueName", fmt.Sprint(queue, ok))
		n, ok := asynq.GetRetryCount(ctx)
		s.see("GetRetryCount", fmt.Sprint(n, ok))
		n, ok = asynq.GetMaxRetry(ctx)
		s.see("GetMaxRetry", fmt.Sprint(n, ok))
	})
	for name, err := range map[string]error{"nil": nil, "an error": errors.New("x"), "SkipRetry": asynq.SkipRetry, "text panic": errors.New("panic: x")} {
		add("IsPanicError("+name+")", func(s *site) { s.see("result", asynq.IsPanicError(err)) })
	}
	for _, sentinel := range sentinels {
		add("text of "+sentinel.name, func(s *site) { s.err(sentinel.err) })
	}
	add("HandlerFunc(nil).ProcessTask", func(s *site) {
		s.err(asynq.HandlerFunc(nil).ProcessTask(context.Background(), asynq.NewTask("x", nil)))
	})
	add("ErrorHandlerFunc.HandleError", func(s *site) {
		asynq.ErrorHandlerFunc(func(_ context.Context, t *asynq.Task, err error) { s.see("got", t.Type()+" "+err.Error()) }).
			HandleError(context.Background(), asynq.NewTask("x", nil), errors.New("failed"))
	})
	add("GroupAggregatorFunc.Aggregate", func(s *site) {
		s.see("got", asynq.GroupAggregatorFunc(func(group string, tasks []*asynq.Task) *asynq.Task {
			return asynq.NewTask(group, nil)
		}).Aggregate("g", nil).Type())
	})
}
