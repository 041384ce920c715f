package apiv2

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/filter"
	"github.com/asynq-go/asynq/x/web/internal/access"
	"github.com/asynq-go/asynq/x/web/internal/show"
)

// Queue is the state of a queue.
type Queue struct {
	Queue                   string     `json:"queue"`
	Paused                  bool       `json:"paused"`
	Size                    int        `json:"size" doc:"The number of tasks in all states."`
	Tasks                   Counts     `json:"tasks" doc:"The number of tasks by state."`
	ArchiveMaxTasks         int        `json:"archive_max_tasks" doc:"The maximum number of archived tasks; older ones are deleted."`
	ArchiveMaxAgeSeconds    float64    `json:"archive_max_age_seconds" doc:"The time after which archived tasks are deleted."`
	Held                    int        `json:"held" doc:"The number of tasks that their partitions hold back. They are not among the scheduled ones."`
	Groups                  int        `json:"groups"`
	MemoryBytes             int64      `json:"memory_bytes" doc:"An estimate. 0: unknown."`
	LatencySeconds          float64    `json:"latency_seconds" doc:"The age of the oldest pending task."`
	ScheduledOverdueSeconds float64    `json:"scheduled_overdue_seconds"`
	RetryOverdueSeconds     float64    `json:"retry_overdue_seconds"`
	LeaseOverdueSeconds     float64    `json:"lease_overdue_seconds"`
	ProcessedToday          int        `json:"processed_today" doc:"The number of attempts finished on this UTC day."`
	FailedToday             int        `json:"failed_today"`
	ProcessedTotal          int        `json:"processed_total"`
	FailedTotal             int        `json:"failed_total"`
	Rate                    *Rate      `json:"rate" doc:"null: no data yet."`
	Health                  []Cause    `json:"health" doc:"What is wrong with the queue, most severe first."`
	At                      *time.Time `json:"at" doc:"The time of the data."`
	Error                   string     `json:"error,omitempty" doc:"The reason why the queue could not be read. All numbers are then 0."`
}

// Counts are the numbers of tasks by state.
type Counts struct {
	Scheduled   int `json:"scheduled"`
	Aggregating int `json:"aggregating"`
	Pending     int `json:"pending"`
	Active      int `json:"active"`
	Retry       int `json:"retry"`
	Archived    int `json:"archived"`
	Completed   int `json:"completed"`
}

// Rate is the rate of a queue per second.
type Rate struct {
	Processed float64 `json:"processed_per_second"`
	Failed    float64 `json:"failed_per_second"`
	Backlog   float64 `json:"backlog_per_second" doc:"The change of the number of pending tasks."`
}

// QueueList is a list of queues by name.
type QueueList struct {
	Items []*Queue   `json:"items"`
	At    *time.Time `json:"at"`
}

func newQueue(name string, info *asynq.QueueInfo, err error) *Queue {
	q := &Queue{Queue: name, Health: []Cause{}}
	if err != nil {
		q.Error = show.RedisError(err)
	}
	if info != nil {
		q.Paused, q.Size, q.Held, q.Groups, q.MemoryBytes = info.Paused, info.Size, info.Held, info.Groups, info.MemoryUsage
		q.Tasks = Counts{
			info.Scheduled, info.Aggregating, info.Pending, info.Active, info.Retry, info.Archived, info.Completed,
		}
		q.ArchiveMaxTasks, q.ArchiveMaxAgeSeconds = info.Archive.MaxTasks, info.Archive.MaxAge.Seconds()
		q.LatencySeconds, q.LeaseOverdueSeconds = info.Latency.Seconds(), info.LeaseOverdue.Seconds()
		q.ScheduledOverdueSeconds, q.RetryOverdueSeconds = info.ScheduledOverdue.Seconds(), info.RetryOverdue.Seconds()
		q.ProcessedToday, q.FailedToday = info.Processed, info.Failed
		q.ProcessedTotal, q.FailedTotal = info.ProcessedTotal, info.FailedTotal
		q.At = timeOf(info.Timestamp)
	}
	return q
}

// addSeen adds the data of the poller to queues.
func (a *api) addSeen(queues ...*Queue) {
	s := a.latest()
	if s == nil {
		return
	}
	by := make(map[string]*Queue, len(queues))
	for _, q := range queues {
		by[q.Queue] = q
	}
	for _, seen := range s.Queues {
		if q := by[seen.Name]; q != nil && seen.Rate.Known {
			q.Rate = &Rate{seen.Rate.Processed, seen.Rate.Failed, seen.Rate.Backlog}
		}
	}
	for _, c := range s.Health.Causes {
		for _, queue := range c.Queues {
			if q := by[queue]; q != nil {
				q.Health = append(q.Health, newCause(c))
			}
		}
	}
}

// row returns the fields of a queue for filters.
func (q *Queue) row() map[string]any {
	row := map[string]any{
		"queue": q.Queue, "paused": q.Paused, "size": q.Size, "groups": q.Groups, "memory_bytes": q.MemoryBytes,
		"latency_seconds": q.LatencySeconds, "pending": q.Tasks.Pending, "active": q.Tasks.Active, "scheduled": q.Tasks.Scheduled,
		"retry": q.Tasks.Retry, "archived": q.Tasks.Archived, "completed": q.Tasks.Completed, "aggregating": q.Tasks.Aggregating,
		"processed_today": q.ProcessedToday, "failed_today": q.FailedToday, "error": q.Error, "processed_per_second": nil,
		"failed_per_second": nil,
	}
	if q.Rate != nil {
		row["processed_per_second"], row["failed_per_second"] = q.Rate.Processed, q.Rate.Failed
	}
	return row
}

func (c *call) listQueues() (any, error) {
	if err := c.view("", ""); err != nil {
		return nil, err
	}
	rows, err := filter.ParseRows(c.query.Get("filter"))
	if err != nil {
		return nil, badParam("filter", "%v", err)
	}
	list := &QueueList{Items: []*Queue{}}
	if s := c.api.latest(); s != nil && s.Err == nil {
		list.At = timeOf(s.At)
		for _, q := range s.Queues {
			list.Items = append(list.Items, newQueue(q.Name, q.Info, q.Err))
		}
	} else {
		infos, err := c.api.Inspector.WithMemorySamples(0).QueueInfos(c.r.Context())
		if err != nil {
			return nil, err
		}
		list.At = timeOf(time.Now())
		for _, r := range infos {
			list.Items = append(list.Items, newQueue(r.Queue, r.Info, r.Err))
		}
	}
	c.api.addSeen(list.Items...)
	if !rows.Empty() {
		var wrong error
		list.Items = slices.DeleteFunc(list.Items, func(q *Queue) bool {
			ok, err := rows.Match(q.row())
			wrong = cmp.Or(wrong, err)
			return !ok
		})
		if wrong != nil {
			return nil, badParam("filter", "%v", wrong)
		}
	}
	return list, nil
}

func (c *call) getQueue() (any, error) {
	if err := c.view(c.queue(), ""); err != nil {
		return nil, err
	}
	return c.theQueue()
}

func (c *call) theQueue() (*Queue, error) {
	info, err := c.inspect().GetQueueInfo(c.queue())
	if err != nil {
		return nil, err
	}
	q := newQueue(c.queue(), info, nil)
	c.api.addSeen(q)
	return q, nil
}

// QueuePatch is a change of a queue.
type QueuePatch struct {
	Paused *bool `json:"paused"`
}

// patchQueue pauses or resumes a queue. It is idempotent.
func (c *call) patchQueue() (any, error) {
	var patch QueuePatch
	if err := c.read(&patch); err != nil {
		return nil, err
	}
	if patch.Paused == nil {
		return nil, unprocessable("/paused", "required: true or false")
	}
	a, set := access.Action{Verb: access.QueueResume, Queue: c.queue()}, c.inspect().UnpauseQueue
	if *patch.Paused {
		a.Verb, set = access.QueuePause, c.inspect().PauseQueue
	}
	if err := c.allow(a); err != nil {
		return nil, err
	}
	q, err := c.theQueue()
	if err != nil || q.Paused == *patch.Paused {
		return q, err
	}
	err = set(c.queue())
	if err != nil {
		if now, asked := c.theQueue(); asked == nil && now.Paused == *patch.Paused {
			err = nil // another request was faster
		}
	}
	c.done(a, err)
	if err != nil {
		return nil, err
	}
	return c.theQueue()
}

func (c *call) deleteQueue() (any, error) {
	a := access.Action{Verb: access.QueueDelete, Queue: c.queue()}
	if err := c.allow(a); err != nil {
		return nil, err
	}
	err := c.inspect().DeleteQueue(c.queue(), c.flag("force"))
	c.done(a, err)
	if err != nil && problemOf(err).Type == "urn:asynq:problem:"+kindRedis {
		if q, asked := c.theQueue(); asked == nil && q.Tasks.Active > 0 {
			return nil, problemf(http.StatusConflict, kindNotEmpty, "%v", err)
		}
	}
	return nil, err
}

// Day is the counters of a queue for one UTC day.
type Day struct {
	Date      string `json:"date" doc:"Formatted as 2006-01-02."`
	Processed int    `json:"processed" doc:"The number of finished attempts."`
	Failed    int    `json:"failed"`
}

// Days are the counters of a queue, newest first.
type Days struct {
	Queue string `json:"queue"`
	Days  []Day  `json:"days"`
}

func (c *call) queueHistory() (any, error) {
	if err := c.view(c.queue(), ""); err != nil {
		return nil, err
	}
	days, err := c.inspect().History(c.queue(), c.num("days"))
	if err != nil {
		return nil, err
	}
	out := Days{Queue: c.queue(), Days: []Day{}}
	for _, d := range days {
		out.Days = append(out.Days, Day{d.Date.UTC().Format(time.DateOnly), d.Processed, d.Failed})
	}
	return out, nil
}

func (c *call) series() (any, error) {
	if err := c.view(c.queue(), ""); err != nil {
		return nil, err
	}
	if c.api.History == nil {
		return nil, problemf(http.StatusServiceUnavailable, kindUnavailable, "this server does not record time series")
	}
	s := c.api.History(c.queue(), c.strs("metric"), time.Duration(c.num("span"))*time.Second)
	if s == nil { // the poller does not have the queue, or not yet
		if c.queue() != "" {
			if _, err := c.theQueue(); err != nil {
				return nil, err
			}
		}
		s = &Series{Times: []int64{}, Values: map[string][]*float64{}}
	}
	return s, nil
}

// Group is a group of tasks that wait to be aggregated.
type Group struct {
	Group string `json:"group"`
	Size  int    `json:"size" doc:"The number of waiting tasks, without those being aggregated."`
}

// GroupList is a list of groups by name.
type GroupList struct {
	Items []Group `json:"items"`
	Total int     `json:"total" doc:"The number of all groups, regardless of limit and offset."`
}

func (c *call) listGroups() (any, error) {
	if err := c.view(c.queue(), ""); err != nil {
		return nil, err
	}
	groups, err := c.inspect().Groups(c.queue())
	if err == nil && len(groups) == 0 {
		_, err = c.inspect().WithMemorySamples(0).GetQueueInfo(c.queue()) // the queue may not exist
	}
	if err != nil {
		return nil, err
	}
	out := GroupList{Items: []Group{}, Total: len(groups)}
	from := min(c.num("offset"), len(groups))
	for _, g := range groups[from:min(len(groups), from+c.num("limit"))] {
		out.Items = append(out.Items, Group{g.Group, g.Size})
	}
	return out, nil
}
