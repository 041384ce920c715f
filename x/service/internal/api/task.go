package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/asynq-go/asynq"
)

// ended reports whether nothing more becomes of a task in this state by itself.
func ended(s asynq.TaskState) bool {
	return s == asynq.TaskStateCompleted || s == asynq.TaskStateArchived
}

func (a *API) getTask(c *Call) error {
	queue, err := c.Queue()
	if err != nil {
		return err
	}
	wait, err := c.Wait(c.R.URL.Query().Get("wait"))
	if err != nil {
		return wrongf("?wait", "%v", err)
	}
	id := c.R.PathValue("id")
	info, err := a.Inspector.WithContext(c.R.Context()).GetTaskInfo(queue, id)
	if err != nil {
		return err
	}
	if wait > 0 && !ended(info.State) {
		leave, err := a.Waiter(c)
		if err != nil {
			return err
		}
		defer leave()
		if info, err = a.await(c.R.Context(), queue, id, wait, info); err != nil {
			return err
		}
		if err := c.Recheck(queue); err != nil {
			return err
		}
	}
	j := NewJSON()
	defer j.Free()
	j.Open('{').Key("task").Task(info, true)
	j.Close('}')
	return c.Send(http.StatusOK, j.Bytes())
}

// await waits for the end of a task, and tells what is known of it then.
func (a *API) await(ctx context.Context, queue, id string, wait time.Duration, info *asynq.TaskInfo) (*asynq.TaskInfo, error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	w := a.watcher.watch(queue, id)
	defer w.leave()
	for {
		var over bool
		select {
		case seen := <-w.news:
			if !ended(seen.State) && !errors.Is(seen.Err, asynq.ErrTaskNotFound) {
				continue // where it is unknown, Redis may answer again before the time is up
			}
		case <-timer.C:
			over = true
		case <-a.Ended.Done():
			over = true
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		look, cancel := context.WithTimeout(ctx, lookTimeout)
		last, err := a.Inspector.WithContext(look).GetTaskInfo(queue, id)
		cancel()
		switch {
		case errors.Is(err, asynq.ErrTaskNotFound) || errors.Is(err, asynq.ErrQueueNotFound):
			return nil, Problemf(http.StatusGone, KindGone, "the task has ended and was not kept, or was deleted: give it a retention to see how it ended")
		case err == nil:
			info = last
		}
		if over || ended(info.State) {
			return info, nil
		}
	}
}

// change makes a change of a task.
func (a *API) change(c *Call, what string, do func(i *asynq.Inspector, queue, id string) error) error {
	queue, err := c.Queue()
	if err != nil {
		return err
	}
	id := c.R.PathValue("id")
	i := a.Inspector.WithContext(c.R.Context())
	if err := do(i, queue, id); err != nil {
		return refused(i, queue, id, err)
	}
	a.audit(c, "task."+what, queue, id)
	a.Hint(queue, id)
	c.W.WriteHeader(http.StatusNoContent)
	return nil
}

// refused tells whether it was the task's state that did not let it be changed.
func refused(i *asynq.Inspector, queue, id string, err error) error {
	if !errors.Is(err, asynq.ErrTaskState) {
		return err
	}
	if info, unknown := i.GetTaskInfo(queue, id); unknown == nil && info.State == asynq.TaskStateActive {
		return Problemf(http.StatusConflict, KindState, "the task is active: cancel it first, or wait for its end")
	}
	return Problemf(http.StatusConflict, KindState, "%v", err)
}

func (a *API) deleteTask(c *Call) error {
	return a.change(c, "delete", (*asynq.Inspector).DeleteTask)
}

func (a *API) runTask(c *Call) error {
	return a.change(c, "run", (*asynq.Inspector).RunTask)
}

func (a *API) archiveTask(c *Call) error {
	return a.change(c, "archive", (*asynq.Inspector).ArchiveTask)
}

func (a *API) rescheduleTask(c *Call) error {
	var body struct {
		At *Time     `json:"at"`
		In *Duration `json:"in"`
	}
	if err := c.Decode(&body); err != nil {
		return err
	}
	if (body.At == nil) == (body.In == nil) {
		return wrongf("/at", "give either at or in")
	}
	var at time.Time
	if body.At != nil {
		at = body.At.Time
	} else {
		at = time.Now().Add(time.Duration(*body.In))
	}
	return a.change(c, "reschedule", func(i *asynq.Inspector, queue, id string) error {
		return i.Reschedule(c.R.Context(), queue, id, at)
	})
}

// cancelTask asks all who may be at work on a task with this ID. IDs are unique in queues only, and a token may be good for some queues
// only: so the task must be active in this one.
func (a *API) cancelTask(c *Call) error {
	queue, err := c.Queue()
	if err != nil {
		return err
	}
	id := c.R.PathValue("id")
	i := a.Inspector.WithContext(c.R.Context())
	info, err := i.GetTaskInfo(queue, id)
	if err != nil {
		return err
	}
	if info.State != asynq.TaskStateActive {
		return Problemf(http.StatusConflict, KindState, "the task is %v: only an active one can be canceled; delete or archive it", info.State)
	}
	if err := i.CancelProcessing(id); err != nil {
		return err
	}
	a.audit(c, "task.cancel", queue, id)
	c.W.WriteHeader(http.StatusAccepted)
	return nil
}
