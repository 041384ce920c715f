package asynq_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"time"

	"github.com/asynq-go/asynq"
)

var hostileTask = map[string]func(h *hostile){
	"NewTask": func(h *hostile) {
		task := asynq.NewTask("", nil, nil, nil)
		h.want(task.Type() == "" && task.Payload() == nil && len(task.Options()) == 2, "a task is what it was made from")
	},
	"NewTaskWithHeaders": func(h *hostile) {
		h.want(asynq.NewTaskWithHeaders("t", nil, nil).Headers() == nil, "no headers are none")
	},
	"Task.Type":    func(h *hostile) { h.want((*asynq.Task)(nil).Type() == "", "no task has no type") },
	"Task.Payload": func(h *hostile) { h.want((*asynq.Task)(nil).Payload() == nil, "no task has no payload") },
	"Task.Headers": func(h *hostile) { h.want((*asynq.Task)(nil).Headers() == nil, "no task has no headers") },
	"Task.Options": func(h *hostile) { h.want((*asynq.Task)(nil).Options() == nil, "no task has no options") },
	"Task.ResultWriter": func(h *hostile) {
		h.want((*asynq.Task)(nil).ResultWriter() == nil && asynq.NewTask("t", nil).ResultWriter() == nil, "no server gave the task")
	},
	"ResultWriter.TaskID": func(h *hostile) {
		h.want((*asynq.ResultWriter)(nil).TaskID() == "" && new(asynq.ResultWriter).TaskID() == "", "no task has no ID")
	},
	"ResultWriter.Write": func(h *hostile) {
		for _, w := range []*asynq.ResultWriter{nil, {}, asynq.NewTask("t", nil).ResultWriter()} {
			n, err := w.Write([]byte("result"))
			h.refused(err, nil, "only a task that was given to a handler")
			h.want(n == 0, "%d bytes were written", n)
		}
	},
	"GetTaskID": func(h *hostile) {
		h.noHandler(func(ctx context.Context) (any, bool) { return asynq.GetTaskID(ctx) }, "")
	},
	"GetQueueName": func(h *hostile) {
		h.noHandler(func(ctx context.Context) (any, bool) { return asynq.GetQueueName(ctx) }, "")
	},
	"GetRetryCount": func(h *hostile) {
		h.noHandler(func(ctx context.Context) (any, bool) { return asynq.GetRetryCount(ctx) }, 0)
	},
	"GetMaxRetry": func(h *hostile) {
		h.noHandler(func(ctx context.Context) (any, bool) { return asynq.GetMaxRetry(ctx) }, 0)
	},
	"RetryAfter": func(h *hostile) {
		h.want(asynq.RetryAfter(mostNegtive).Error() != "" && asynq.RetryAfter(longest).Error() != "", "there is a text")
	},
	"Snooze": func(h *hostile) {
		h.want(asynq.Snooze(mostNegtive).Error() != "" && asynq.Snooze(longest).Error() != "", "there is a text")
	},
	"IsSnooze": func(h *hostile) {
		for _, err := range []error{nil, errors.New("x"), asynq.RetryAfter(longest), asynq.SkipRetry} {
			h.want(!asynq.IsSnooze(err), "%v is none", err)
		}
		h.want(asynq.IsSnooze(fmt.Errorf("%w and %w", io.EOF, asynq.Snooze(0))), "it is one")
	},
	"IsPanicError": func(h *hostile) {
		h.want(!asynq.IsPanicError(nil) && !asynq.IsPanicError(errors.New("x")), "there was no panic")
		h.want(asynq.IsPanicError(&asynq.PanicError{}), "there was a panic")
	},
	"DefaultRetryDelayFunc": func(h *hostile) {
		for _, n := range []int{math.MinInt, -1, 0, 25, 299, 300, 301, 1000, math.MaxInt32, math.MaxInt} {
			d := asynq.DefaultRetryDelayFunc(n, nil, nil)
			h.want(d >= 15*time.Second, "the delay after %d attempts is %v", n, d)
			h.want(n < 300 || d > 250*365*24*time.Hour, "the delay after %d attempts is %v", n, d)
		}
	},
}

// noHandler calls a getter with contexts that are no handler's.
func (h *hostile) noHandler(get func(ctx context.Context) (any, bool), zero any) {
	h.t.Helper()
	for _, ctx := range []context.Context{noContext, context.Background()} {
		v, ok := get(ctx)
		h.want(v == zero && !ok, "got %v, %t", v, ok)
	}
}

var hostileMux = map[string]func(h *hostile){
	"NewServeMux": func(h *hostile) { h.want(asynq.NewServeMux() != nil, "there is one") },
	"ServeMux.Handle": func(h *hostile) {
		mux := asynq.NewServeMux()
		fine := asynq.NotFoundHandler()
		for _, pattern := range blankNames {
			h.panics("invalid pattern", func() { mux.Handle(pattern, fine) })
		}
		h.panics("nil handler", func() { mux.Handle("p", nil) })
		h.panics("nil handler", func() { mux.Handle("p", asynq.HandlerFunc(nil)) })
		h.panics("nil handler", func() { mux.Handle("p", (*asynq.ServeMux)(nil)) })
		for _, pattern := range append(unusualNames, hugeName, notUTF8) {
			mux.Handle(pattern, fine)
			h.panics("multiple registrations", func() { mux.Handle(pattern, fine) })
			_, found := mux.Handler(asynq.NewTask(pattern+"more", nil))
			h.want(found == pattern, "%.50q leads to %.50q", pattern, found)
		}
	},
	"ServeMux.HandleFunc": func(h *hostile) {
		h.panics("nil handler", func() { asynq.NewServeMux().HandleFunc("p", nil) })
	},
	"ServeMux.Use": func(h *hostile) {
		mux := asynq.NewServeMux()
		mux.Use()
		h.panics("nil middleware", func() { mux.Use(nil) })
		mux.Use(func(asynq.Handler) asynq.Handler { return nil })
		h.panics("returned a nil handler", func() { mux.Handler(asynq.NewTask("t", nil)) })
	},
	"ServeMux.Handler": func(h *hostile) {
		mux := new(asynq.ServeMux)
		for _, task := range []*asynq.Task{nil, {}, asynq.NewTask(hugeName, nil), asynq.NewTask(notUTF8, nil)} {
			handler, pattern := mux.Handler(task)
			h.want(handler != nil && pattern == "", "nothing is registered, but %q", pattern)
		}
	},
	"ServeMux.ProcessTask": func(h *hostile) {
		h.refused(asynq.NewServeMux().ProcessTask(noContext, nil), asynq.ErrHandlerNotFound)
	},
	"NotFound": func(h *hostile) { h.refused(asynq.NotFound(noContext, nil), asynq.ErrHandlerNotFound, `""`) },
	"NotFoundHandler": func(h *hostile) {
		h.refused(asynq.NotFoundHandler().ProcessTask(noContext, nil), asynq.ErrHandlerNotFound)
	},
	"HandlerFunc.ProcessTask": func(h *hostile) {
		f := asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return asynq.SkipRetry })
		h.refused(f.ProcessTask(noContext, nil), asynq.SkipRetry)
	},
	"ErrorHandlerFunc.HandleError": func(*hostile) {
		asynq.ErrorHandlerFunc(func(context.Context, *asynq.Task, error) {}).HandleError(noContext, nil, nil)
	},
	"GroupAggregatorFunc.Aggregate": func(h *hostile) {
		h.want(asynq.GroupAggregatorFunc(func(string, []*asynq.Task) *asynq.Task { return nil }).Aggregate("", nil) == nil, "it is called")
	},
}

var hostileLogger = map[string]func(h *hostile){
	"LogLevel.Set": func(h *hostile) {
		for _, text := range append(append(unusualNames, blankNames...), notUTF8, "debug\n") {
			level := asynq.WarnLevel
			h.refused(level.Set(text), nil, "unsupported log level")
			h.want(level == asynq.WarnLevel, "%q sets the level to %v", text, level)
		}
	},
	"LogLevel.String": func(h *hostile) {
		for _, level := range []asynq.LogLevel{-1, 6, math.MinInt32, math.MaxInt32} {
			h.want(level.String() != "", "there is a text")
		}
	},
	"NewSlogLogger": func(h *hostile) {
		h.want(asynq.NewSlogLogger(nil) != nil, "it is the default one")
		asynq.NewSlogLogger(slog.New(slog.DiscardHandler)).Info(nil, noContext, math.NaN())
	},
	"MissedTicks.String": func(h *hostile) { h.want(asynq.MissedTicks(math.MinInt).String() != "", "there is a text") },
}
