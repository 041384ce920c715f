package api

import (
	"errors"
	"net/http"

	"github.com/asynq-go/asynq"
)

func (a *API) listQueues(c *Call) error {
	i := a.Inspector.WithContext(c.R.Context())
	names, err := i.Queues()
	if err != nil {
		return err
	}
	seen := names[:0]
	for _, q := range names {
		if c.Who.HasAccess(q) && c.Rules.Known(q) {
			seen = append(seen, q)
		}
	}
	var results []asynq.QueueInfoResult
	if len(seen) > 0 { // QueueInfos without names returns all queues
		if results, err = i.QueueInfos(c.R.Context(), seen...); err != nil {
			return err
		}
	}
	j := NewJSON()
	defer j.Free()
	j.Open('{').Key("queues").Open('[')
	for _, r := range results {
		switch {
		case r.Err == nil:
			j.queue(c, r.Info)
		case !errors.Is(r.Err, asynq.ErrQueueNotFound): // deleted since Queues returned it
			return r.Err
		}
	}
	j.Close(']').Close('}')
	return c.Send(http.StatusOK, j.Bytes())
}

func (a *API) getQueue(c *Call) error {
	queue, err := c.Queue()
	if err != nil {
		return err
	}
	info, err := a.Inspector.WithContext(c.R.Context()).WithMemorySamples(0).GetQueueInfo(queue)
	if err != nil {
		return err
	}
	j := NewJSON()
	defer j.Free()
	j.Open('{').Key("queue").queue(c, info)
	j.Close('}')
	return c.Send(http.StatusOK, j.Bytes())
}

func (j *JSON) queue(c *Call, q *asynq.QueueInfo) {
	j.Open('{')
	j.Key("name").String(q.Queue)
	for _, n := range []struct {
		name  string
		value int
	}{
		{"size", q.Size}, {"pending", q.Pending}, {"active", q.Active}, {"scheduled", q.Scheduled}, {"held", q.Held}, {"retry", q.Retry},
		{"archived", q.Archived}, {"completed", q.Completed}, {"aggregating", q.Aggregating}, {"groups", q.Groups},
		{"processed_today", q.Processed}, {"failed_today", q.Failed}, {"processed_total", q.ProcessedTotal}, {"failed_total", q.FailedTotal},
	} {
		j.Key(n.name).Int(n.value)
	}
	j.Key("paused").Bool(q.Paused)
	j.Key("latency").String(q.Latency.String())
	rule := c.Rules.Queues[q.Queue]
	if rule.InOrder {
		rule.MaxRun = 1
		j.Key("in_order").Bool(true)
	}
	if p := rule.Partitions; p != nil {
		j.Key("partitions").Open('{')
		if p.Concurrency > 0 {
			j.Key("max_run").Int(p.Concurrency)
		}
		if p.Rate.Events > 0 {
			j.Key("rate").Int(p.Rate.Events)
			j.Key("per").String(p.Rate.Per.String())
			j.Key("burst").Int(max(p.Rate.Burst, 1))
		}
		if p.Ordered {
			j.Key("in_order").Bool(true)
		}
		if p.ByType {
			j.Key("by_type").Bool(true)
		}
		j.Close('}')
	}
	if rule.MaxRun > 0 {
		j.Key("max_run").Int(rule.MaxRun)
	}
	j.Close('}')
}

func (a *API) pauseQueue(c *Call) error {
	return a.setPaused(c, "pause", true, (*asynq.Inspector).PauseQueue)
}

func (a *API) resumeQueue(c *Call) error {
	return a.setPaused(c, "resume", false, (*asynq.Inspector).UnpauseQueue)
}

func (a *API) setPaused(c *Call, what string, paused bool, do func(*asynq.Inspector, string) error) error {
	queue, err := c.Queue()
	if err != nil {
		return err
	}
	// PauseQueue accepts unknown queues, but a wrong name is more likely.
	i := a.Inspector.WithContext(c.R.Context()).WithMemorySamples(0)
	info, err := i.GetQueueInfo(queue)
	if err != nil {
		return err
	}
	if info.Paused != paused {
		if err := do(i, queue); err != nil {
			if info, unknown := i.GetQueueInfo(queue); unknown != nil || info.Paused != paused {
				return err
			} // another client changed it first
		}
		a.audit(c, "queue."+what, queue, "")
	}
	c.W.WriteHeader(http.StatusNoContent)
	return nil
}

// deleteQueue deletes a queue and its statistics; with force, also its tasks.
func (a *API) deleteQueue(c *Call) error {
	queue, err := c.Queue()
	if err != nil {
		return err
	}
	force := false
	switch value := c.R.URL.Query().Get("force"); value {
	case "true":
		force = true
	case "", "false":
	default:
		return invalidf("?force", "must be true or false")
	}
	err = a.Inspector.WithContext(c.R.Context()).DeleteQueue(queue, force)
	switch {
	case errors.Is(err, asynq.ErrTaskState):
		return Problemf(http.StatusConflict, KindQueueActive, "the queue %q has active tasks: cancel them or wait for them, then delete the queue", queue)
	case errors.Is(err, asynq.ErrQueueNotEmpty) && force:
		return Problemf(http.StatusConflict, KindQueueNotEmpty, "clients keep enqueueing to the queue %q: stop them, then delete the queue", queue)
	case errors.Is(err, asynq.ErrQueueNotEmpty):
		return Problemf(http.StatusConflict, KindQueueNotEmpty, "the queue %q has tasks: delete them, or add ?force=true to delete the queue with its tasks", queue)
	case err != nil:
		return err
	}
	a.audit(c, "queue.delete", queue, "")
	c.W.WriteHeader(http.StatusNoContent)
	return nil
}
