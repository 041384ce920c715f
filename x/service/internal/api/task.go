package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/asynq-go/asynq"
)

// ended reports whether a state is final.
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
		return invalidf("?wait", "%v", err)
	}
	id := c.R.PathValue("id")
	info, err := a.Inspector.WithContext(c.R.Context()).GetTaskInfo(queue, id)
	if err != nil {
		return err
	}
	if wait > 0 && !ended(info.State) {
		leave, err := a.Waiter(c, 1)
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

const (
	// readTimeout limits reading a task after a wait: the client has waited long enough.
	readTimeout = 2 * time.Second

	// waitAgain is the pause after a wait that failed because Redis did.
	waitAgain = 500 * time.Millisecond
)

// await waits until a task has ended or the wait is over, and returns its latest state.
func (a *API) await(ctx context.Context, queue, id string, wait time.Duration, info *asynq.TaskInfo) (*asynq.TaskInfo, error) {
	waiting, stop := context.WithTimeout(ctx, wait)
	defer stop()
	defer context.AfterFunc(a.Ended, stop)()
	for {
		last, err := a.Client.Wait(waiting, queue, id)
		if waiting.Err() != nil {
			look, cancel := context.WithTimeout(ctx, readTimeout)
			last, err = a.Inspector.WithContext(look).GetTaskInfo(queue, id)
			cancel()
		}
		var failed *asynq.TaskFailedError
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.As(err, &failed):
			return failed.Info, nil
		case errors.Is(err, asynq.ErrTaskNotFound) || errors.Is(err, asynq.ErrQueueNotFound):
			return nil, Problemf(http.StatusGone, KindGone, "the task ended and was not retained, or was deleted: set a retention to read its result")
		case err == nil:
			info = last
		}
		if waiting.Err() != nil || ended(info.State) {
			return info, nil
		}
		if err != nil { // Redis may respond again in time
			select {
			case <-time.After(waitAgain):
			case <-waiting.Done():
			}
		}
	}
}

// change changes a task.
func (a *API) change(c *Call, what string, do func(i *asynq.Inspector, queue, id string) error) error {
	queue, err := c.Queue()
	if err != nil {
		return err
	}
	id := c.R.PathValue("id")
	i := a.Inspector.WithContext(c.R.Context())
	if err := do(i, queue, id); err != nil {
		return stateProblem(i, queue, id, err)
	}
	a.audit(c, "task."+what, queue, id)
	c.W.WriteHeader(http.StatusNoContent)
	return nil
}

// stateProblem converts the error of a change that the state of the task does not permit.
func stateProblem(i *asynq.Inspector, queue, id string, err error) error {
	if !errors.Is(err, asynq.ErrTaskState) {
		return err
	}
	if info, unknown := i.GetTaskInfo(queue, id); unknown == nil && info.State == asynq.TaskStateActive {
		return Problemf(http.StatusConflict, KindState, "the task is active: cancel it or wait until it ends")
	}
	return Problemf(http.StatusConflict, KindState, "%v", err)
}

func (a *API) deleteTask(c *Call) error {
	return a.change(c, "delete", (*asynq.Inspector).DeleteTask)
}

func (a *API) runTask(c *Call) error {
	return a.change(c, "run", (*asynq.Inspector).RunTask)
}

// archiveTask archives a task. If the archive is full, this deletes its oldest task and requires
// the client's consent.
func (a *API) archiveTask(c *Call) error {
	switch c.R.URL.Query().Get("discard_oldest") {
	case "true":
		return a.change(c, "archive", (*asynq.Inspector).ArchiveTask)
	case "", "false":
	default:
		return invalidf("?discard_oldest", "must be true or false")
	}
	return a.change(c, "archive", func(i *asynq.Inspector, queue, id string) error {
		room, err := i.ArchiveRoom(c.R.Context(), queue)
		if err != nil {
			return err
		}
		if room > 0 {
			return i.ArchiveTask(queue, id)
		}
		if _, err := i.GetTaskInfo(queue, id); err != nil {
			return err
		}
		limits, err := i.ArchiveLimits(c.R.Context(), queue)
		if err != nil {
			return err
		}
		return Problemf(http.StatusConflict, KindArchiveFull,
			"the archive of queue %q is full: it keeps the newest %d tasks, and archiving another one deletes the oldest. Add ?discard_oldest=true to accept this",
			queue, limits.MaxTasks)
	})
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
		return invalidf("/at", "set either at or in")
	}
	var at time.Time
	if body.At != nil {
		at = body.At.Time
	} else {
		at = time.Now().Add(time.Duration(*body.In))
	}
	return a.change(c, "reschedule", func(i *asynq.Inspector, queue, id string) error {
		return i.RescheduleTask(c.R.Context(), queue, id, at)
	})
}

// cancelTask cancels the task's ID for all workers. IDs are unique per queue only, and a token may
// have access to some queues only, so the task must be active in this queue.
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
		return Problemf(http.StatusConflict, KindState, "the task is %v: only active tasks can be canceled; delete or archive it instead", info.State)
	}
	if err := i.CancelProcessing(id); err != nil {
		return err
	}
	a.audit(c, "task.cancel", queue, id)
	c.W.WriteHeader(http.StatusAccepted)
	return nil
}
