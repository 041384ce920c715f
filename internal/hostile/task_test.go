package hostile_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/asynq-go/asynq"
)

var hostileTask = map[string]func(h *hostile){
	"NewTask": func(h *hostile) {
		task := asynq.NewTask("", nil, nil, nil)
		h.check(task.Type() == "" && task.Payload() == nil && len(task.Options()) == 0, "the task differs from its arguments without nil options")
	},
	"NewTaskWithHeaders": func(h *hostile) {
		h.check(asynq.NewTaskWithHeaders("t", nil, nil).Headers() == nil, "a task without headers has headers")
	},
	"Task.Type":    func(h *hostile) { h.check((*asynq.Task)(nil).Type() == "", "a nil task has a type") },
	"Task.Payload": func(h *hostile) { h.check((*asynq.Task)(nil).Payload() == nil, "a nil task has a payload") },
	"Task.Headers": func(h *hostile) { h.check((*asynq.Task)(nil).Headers() == nil, "a nil task has headers") },
	"Task.Options": func(h *hostile) { h.check((*asynq.Task)(nil).Options() == nil, "a nil task has options") },
	"Task.Validate": func(h *hostile) {
		h.wantErr((*asynq.Task)(nil).Validate(), nil, "task must not be nil")
		h.wantErr(asynq.NewTask("", nil).Validate(), nil, "task type must not be empty")
		h.wantErr(asynq.NewTask("t", nil).Validate(nil, asynq.Queue("")), nil, "queue name")
		h.check(asynq.NewTask("t", nil).Validate(nil) == nil, "a valid task with a nil option is invalid")
	},
	"FormatOption": func(h *hostile) {
		for _, opt := range []asynq.Option{nil, (*oddOption)(nil)} {
			text, err := asynq.FormatOption(opt)
			h.wantErr(err, nil, "a nil option has no text")
			h.check(text == "", "a nil option has the text %q", text)
		}
		_, err := asynq.FormatOption(asynq.ProcessAt(time.Unix(math.MaxInt64, 0)))
		h.wantErr(err, nil, "cannot be stored as text")
	},
	"ParseOption": func(h *hostile) {
		for _, text := range []string{"", "(", "Queue", "Queue(", "Queue()", `Explode("x")`, "MaxRetry(\x00)", "Timeout(1e99h)"} {
			opt, err := asynq.ParseOption(text)
			h.wantErr(err, nil, "is not an option of this version")
			h.check(opt == nil, "%q is the option %v", text, opt)
		}
	},
	"Task.ResultWriter": func(h *hostile) {
		h.check((*asynq.Task)(nil).ResultWriter() == nil && asynq.NewTask("t", nil).ResultWriter() == nil, "a task that no server passed to a handler has a ResultWriter")
	},
	"ResultWriter.TaskID": func(h *hostile) {
		h.check((*asynq.ResultWriter)(nil).TaskID() == "" && new(asynq.ResultWriter).TaskID() == "", "a ResultWriter without a task has a task ID")
	},
	"ResultWriter.Write": func(h *hostile) {
		for _, w := range []*asynq.ResultWriter{nil, {}, asynq.NewTask("t", nil).ResultWriter()} {
			n, err := w.Write([]byte("result"))
			h.wantErr(err, nil, "only a task that was given to a handler")
			h.check(n == 0, "wrote %d bytes", n)
		}
	},
	"ResultWriter.Flush": func(h *hostile) {
		for _, w := range []*asynq.ResultWriter{nil, {}, asynq.NewTask("t", nil).ResultWriter()} {
			h.wantErr(w.Flush(), nil, "only a task that was given to a handler")
		}
	},
	"GetTaskID": func(h *hostile) {
		h.outsideHandlers(func(ctx context.Context) (any, bool) { return asynq.GetTaskID(ctx) }, "")
	},
	"GetQueueName": func(h *hostile) {
		h.outsideHandlers(func(ctx context.Context) (any, bool) { return asynq.GetQueueName(ctx) }, "")
	},
	"GetRetryCount": func(h *hostile) {
		h.outsideHandlers(func(ctx context.Context) (any, bool) { return asynq.GetRetryCount(ctx) }, 0)
	},
	"GetMaxRetry": func(h *hostile) {
		h.outsideHandlers(func(ctx context.Context) (any, bool) { return asynq.GetMaxRetry(ctx) }, 0)
	},
	"SetProgress": func(h *hostile) {
		h.wantErr(asynq.SetProgress(noContext, 0.5, ""), nil, "ctx must not be nil")
		h.wantErr(asynq.SetProgress(context.Background(), 0.5, hugeName), nil, "needs the context of a handler")
	},
	"AttemptInfo.Duration": func(h *hostile) {
		early, late := time.Unix(0, math.MinInt64), time.Unix(0, math.MaxInt64)
		for _, a := range []asynq.AttemptInfo{{}, {Ended: late}, {Started: early}, {Started: late, Ended: early}} {
			h.check(a.Duration() == 0, "%+v has the duration %v", a, a.Duration())
		}
		h.check(asynq.AttemptInfo{Started: early, Ended: late}.Duration() > 0, "a long attempt has no duration")
	},
	"RetryAfter": func(h *hostile) {
		h.check(asynq.RetryAfter(mostNegative).Error() != "" && asynq.RetryAfter(longest).Error() != "", "an extreme value has no text")
	},
	"Snooze": func(h *hostile) {
		h.check(asynq.Snooze(mostNegative).Error() != "" && asynq.Snooze(longest).Error() != "", "an extreme value has no text")
	},
	"IsSnooze": func(h *hostile) {
		for _, err := range []error{nil, errors.New("x"), asynq.RetryAfter(longest), asynq.SkipRetry} {
			h.check(!asynq.IsSnooze(err), "IsSnooze(%v) is true", err)
		}
		h.check(asynq.IsSnooze(fmt.Errorf("%w and %w", io.EOF, asynq.Snooze(0))), "a wrapped Snooze is not recognized")
	},
	"IsPanicError": func(h *hostile) {
		h.check(!asynq.IsPanicError(nil) && !asynq.IsPanicError(errors.New("x")), "an error without a panic is a PanicError")
		h.check(asynq.IsPanicError(&asynq.PanicError{}), "a PanicError is not recognized")
	},
	"ErrorKind": func(h *hostile) {
		for _, text := range slices.Concat(blankNames, unusualNames, []string{notUTF8, hugeName, "a @ b", "‹", "\"", "://"}) {
			kind := asynq.ErrorKind(text)
			h.check(utf8.ValidString(kind) && len(kind) < 1000, "the kind of an error of %d bytes has %d", len(text), len(kind))
			h.check(asynq.ErrorKind(kind) == kind, "the kind %q is of another kind", kind)
		}
	},
	"PanicError.Error": func(h *hostile) {
		h.check((&asynq.PanicError{}).Error() != "", "an empty PanicError has no text")
	},
	"PanicError.Unwrap": func(h *hostile) {
		h.check((&asynq.PanicError{Value: 1}).Unwrap() == nil, "a PanicError wraps a value that is not an error")
	},
	"DuplicateTaskError.Error": func(h *hostile) {
		h.check((&asynq.DuplicateTaskError{}).Error() == asynq.ErrDuplicateTask.Error(), "an empty DuplicateTaskError has another text")
	},
	"DuplicateTaskError.Unwrap": func(h *hostile) {
		h.check(errors.Is(&asynq.DuplicateTaskError{}, asynq.ErrDuplicateTask), "an empty DuplicateTaskError is not ErrDuplicateTask")
	},
	"DefaultRetryDelayFunc": func(h *hostile) {
		for _, n := range []int{math.MinInt, -1, 0, 25, 299, 300, 301, 1000, math.MaxInt32, math.MaxInt} {
			d := asynq.DefaultRetryDelayFunc(n, nil, nil)
			h.check(d >= 15*time.Second, "delay after %d attempts: %v", n, d)
			h.check(n < 300 || d > 250*365*24*time.Hour, "delay after %d attempts: %v", n, d)
		}
	},
}

// outsideHandlers calls a getter with contexts that do not come from a handler.
func (h *hostile) outsideHandlers(get func(ctx context.Context) (any, bool), zero any) {
	h.T.Helper()
	for _, ctx := range []context.Context{noContext, context.Background()} {
		v, ok := get(ctx)
		h.check(v == zero && !ok, "got %v, %t, want the zero value and false", v, ok)
	}
}

var hostileMux = map[string]func(h *hostile){
	"NewServeMux": func(h *hostile) { h.check(asynq.NewServeMux() != nil, "NewServeMux returned nil") },
	"ServeMux.Handle": func(h *hostile) {
		mux := asynq.NewServeMux()
		fine := asynq.NotFoundHandler()
		for _, pattern := range blankNames {
			h.wantPanic("invalid pattern", func() { mux.Handle(pattern, fine) })
		}
		h.wantPanic("nil handler", func() { mux.Handle("p", nil) })
		h.wantPanic("nil handler", func() { mux.Handle("p", asynq.HandlerFunc(nil)) })
		h.wantPanic("nil handler", func() { mux.Handle("p", (*asynq.ServeMux)(nil)) })
		for _, pattern := range append(unusualNames, hugeName, notUTF8) {
			mux.Handle(pattern, fine)
			h.wantPanic("multiple registrations", func() { mux.Handle(pattern, fine) })
			_, found := mux.Handler(asynq.NewTask(pattern+"more", nil))
			h.check(found == pattern, "the prefix %.50q matches pattern %.50q", pattern, found)
		}
	},
	"ServeMux.HandleFunc": func(h *hostile) {
		h.wantPanic("nil handler", func() { asynq.NewServeMux().HandleFunc("p", nil) })
	},
	"ServeMux.Use": func(h *hostile) {
		mux := asynq.NewServeMux()
		mux.Use()
		h.wantPanic("nil middleware", func() { mux.Use(nil) })
		mux.Use(func(asynq.Handler) asynq.Handler { return nil })
		h.wantPanic("returned a nil handler", func() { mux.Handler(asynq.NewTask("t", nil)) })
	},
	"ServeMux.Handler": func(h *hostile) {
		mux := new(asynq.ServeMux)
		for _, task := range []*asynq.Task{nil, {}, asynq.NewTask(hugeName, nil), asynq.NewTask(notUTF8, nil)} {
			handler, pattern := mux.Handler(task)
			h.check(handler != nil && pattern == "", "an empty mux matches %q", pattern)
		}
	},
	"ServeMux.Patterns": func(h *hostile) {
		mux := new(asynq.ServeMux)
		h.check(mux.Patterns() != nil && len(mux.Patterns()) == 0, "an empty mux has the patterns %q", mux.Patterns())
		for _, pattern := range append(unusualNames, hugeName, notUTF8) {
			mux.Handle(pattern, asynq.NotFoundHandler())
		}
		h.check(len(mux.Patterns()) == len(unusualNames)+2, "%d patterns", len(mux.Patterns()))
	},
	"ServerInfo.Handles": func(h *hostile) {
		unknown, nothing := &asynq.ServerInfo{}, &asynq.ServerInfo{Patterns: []string{}}
		for _, typename := range slices.Concat(unusualNames, blankNames, []string{notUTF8, hugeName}) {
			exact := &asynq.ServerInfo{Patterns: []string{typename + "x", typename}}
			h.check(unknown.Handles(typename) && !nothing.Handles(typename) && exact.Handles(typename), "%.50q", typename)
		}
	},
	"ServeMux.ProcessTask": func(h *hostile) {
		h.wantErr(asynq.NewServeMux().ProcessTask(noContext, nil), asynq.ErrHandlerNotFound)
	},
	"NotFound": func(h *hostile) { h.wantErr(asynq.NotFound(noContext, nil), asynq.ErrHandlerNotFound, `""`) },
	"NotFoundHandler": func(h *hostile) {
		h.wantErr(asynq.NotFoundHandler().ProcessTask(noContext, nil), asynq.ErrHandlerNotFound)
	},
	"HandlerFunc.ProcessTask": func(h *hostile) {
		f := asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return asynq.SkipRetry })
		h.wantErr(f.ProcessTask(noContext, nil), asynq.SkipRetry)
	},
	"ErrorHandlerFunc.HandleError": func(*hostile) {
		asynq.ErrorHandlerFunc(func(context.Context, *asynq.Task, error) {}).HandleError(noContext, nil, nil)
	},
	"GroupAggregatorFunc.Aggregate": func(h *hostile) {
		h.check(asynq.GroupAggregatorFunc(func(string, []*asynq.Task) *asynq.Task { return nil }).Aggregate("", nil) == nil, "the function was not called")
	},
}

var hostileLogger = map[string]func(h *hostile){
	"LogLevel.Set": func(h *hostile) {
		for _, text := range append(append(unusualNames, blankNames...), notUTF8, "debug\n") {
			level := asynq.WarnLevel
			h.wantErr(level.Set(text), nil, "unsupported log level")
			h.check(level == asynq.WarnLevel, "%q sets the level to %v", text, level)
		}
	},
	"LogLevel.String": func(h *hostile) {
		for _, level := range []asynq.LogLevel{-1, 6, math.MinInt32, math.MaxInt32} {
			h.check(level.String() != "", "an extreme value has no text")
		}
	},
	"NewSlogLogger": func(h *hostile) {
		h.check(asynq.NewSlogLogger(nil) != nil, "NewSlogLogger(nil) is nil")
		asynq.NewSlogLogger(slog.New(slog.DiscardHandler)).Info(nil, noContext, math.NaN())
	},
	"MissedTicks.String": func(h *hostile) {
		h.check(asynq.MissedTicks(math.MinInt).String() != "", "an extreme value has no text")
	},
}
