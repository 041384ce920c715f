package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/asynq-go/asynq/test/chaos/history"
)

// worker executes the plans in payloads and records the events.
type worker struct {
	history *history.Writer
	runs    atomic.Int64
}

func work(lib library, c *conn, w *Worker, h *history.Writer) error {
	return lib.serve(c, w, &worker{history: h})
}

// errPlanned is the error of planned failures.
var errPlanned = errors.New("planned failure")

// handle runs one attempt. It records the start as its first and the end as its last action.
func (w *worker) handle(ctx context.Context, a *attempt) error {
	e := history.Event{Kind: history.Started, Task: a.id, Queue: a.queue, Retried: a.retried, MaxRetry: a.maxRetry}
	e.Run = strconv.Itoa(os.Getpid()) + "." + strconv.FormatInt(w.runs.Add(1), 10)
	o, err := decode(a.payload)
	e.Members, e.Plan = o.Members, o.Plan
	w.history.Write(e)
	e = history.Event{Kind: history.Finished, Task: a.id, Queue: a.queue, Retried: a.retried, Run: e.Run}
	watching := context.AfterFunc(ctx, func() {
		if a.lost() {
			lost := e
			lost.Kind = history.Lost
			w.history.Write(lost)
		}
	})
	defer watching()
	if err == nil {
		e.Step = o.step(a.retried)
		err = pause(ctx, time.Duration(o.WorkMS)*time.Millisecond)
	}
	if err != nil {
		e.Err = err.Error()
		w.history.Write(e)
		return err
	}
	return w.end(ctx, a, e)
}

// end ends an attempt according to its step.
func (w *worker) end(ctx context.Context, a *attempt, e history.Event) error {
	switch e.Step {
	case history.Fail:
		e.Err = errPlanned.Error()
		w.history.Write(e)
		return errPlanned
	case history.Panic:
		e.Err = history.Panic
		w.history.Write(e)
		panic("to be contained")
	case history.Goexit:
		e.Err = history.Goexit
		w.history.Write(e)
		runtime.Goexit()
	case history.Hang:
		<-ctx.Done()
		err := context.Cause(ctx)
		e.Err = err.Error()
		w.history.Write(e)
		return err
	case history.Crash:
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case history.Huge:
		if err := a.result(make([]byte, hugeResult)); err != nil {
			err = fmt.Errorf("writing the result: %w", err)
			e.Err = err.Error()
			w.history.Write(e)
			return err
		}
	}
	w.history.Write(e)
	return nil
}

// pause simulates the work of a task.
func pause(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (w *worker) failed(a *attempt, err error) {
	w.history.Write(history.Event{Kind: history.Failed, Task: a.id, Queue: a.queue, Retried: a.retried, Err: err.Error()})
}

func (w *worker) aggregate(payloads [][]byte) []byte {
	o := instructions{Plan: []string{history.Succeed}}
	for _, p := range payloads {
		member, err := decode(p)
		if err == nil {
			o.Members = append(o.Members, member.ID)
		}
	}
	return o.encode()
}
