package apiv2

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web/internal/access"
	"github.com/asynq-go/asynq/x/web/internal/survey"
)

// Partition is the state of a partition.
type Partition struct {
	Key      string            `json:"key" doc:"Empty for the tasks without a partition key."`
	Held     int               `json:"held" doc:"The number of tasks that wait because of the partition."`
	Active   int               `json:"active"`
	Latency  float64           `json:"latency_seconds" doc:"The age of its first held task."`
	Blocked  bool              `json:"blocked" doc:"A limit or a pause holds its tasks."`
	CheckAt  *time.Time        `json:"check_at" doc:"When servers check the limit, at the latest."`
	Paused   bool              `json:"paused"`
	Settings PartitionSettings `json:"settings" doc:"Its own settings, besides those of the queue."`
	At       time.Time         `json:"at"`
}

// PartitionSettings are the limits and the weight of a partition.
type PartitionSettings struct {
	Concurrency *int           `json:"concurrency,omitempty" doc:"The maximum number of active tasks, at most 1,000. 0: no limit. Absent: that of the queue."`
	Rate        *PartitionRate `json:"rate,omitempty" doc:"Absent: that of the queue."`
	Weight      *float64       `json:"weight,omitempty" doc:"The share of the queue, from 0.000001 to 1,000,000. Absent: that of the queue."`
}

// PartitionRate limits how often tasks of a partition start.
type PartitionRate struct {
	Events int     `json:"events" doc:"The number of starts in each period, up to 1,000,000. 0: no limit."`
	Per    float64 `json:"per_seconds,omitempty" doc:"The period, up to 86,400. The default is 1."`
	Burst  int     `json:"burst,omitempty" doc:"The number of tasks that may start at once. The default is 1."`
}

// PartitionList is the partitions of a queue.
type PartitionList struct {
	Items    []*Partition `json:"items"`
	Total    int          `json:"total" doc:"The number of partitions with held or active tasks."`
	Complete bool         `json:"complete" doc:"false: the queue has more partitions than were read."`
}

// mostPartitions is the number of partitions that a request reads.
const mostPartitions = 20_000

func newPartition(p *asynq.PartitionInfo) *Partition {
	out := &Partition{
		Key: p.Key, Held: p.Held, Active: p.Active, Latency: p.Latency.Seconds(), Blocked: p.IsBlocked, CheckAt: timeOf(p.CheckAt),
		Paused: p.Settings.Paused, At: p.Timestamp.UTC(),
	}
	if n := p.Settings.Concurrency; n != 0 {
		out.Settings.Concurrency = new(max(n, 0))
	}
	if r := p.Settings.Rate; r.Events != 0 {
		out.Settings.Rate = &PartitionRate{Events: max(r.Events, 0), Per: r.Per.Seconds(), Burst: r.Burst}
	}
	if w := p.Settings.Weight; w != 0 {
		out.Settings.Weight = &w
	}
	return out
}

// settings returns the settings for an Inspector.
func (s *PartitionSettings) settings() (out asynq.PartitionSettings, err error) {
	switch n := s.Concurrency; {
	case n == nil:
	case *n < 0:
		return out, unprocessable("/concurrency", "must not be negative: 0 means no limit")
	default:
		out.Concurrency = cmp.Or(*n, -1)
	}
	switch r := s.Rate; {
	case r == nil:
	case r.Events < 0 || r.Per < 0 || r.Burst < 0:
		return out, unprocessable("/rate", "must not be negative")
	case r.Events == 0:
		out.Rate.Events = -1
	default:
		out.Rate = asynq.RateLimit{Events: r.Events, Per: time.Duration(cmp.Or(r.Per, 1) * float64(time.Second)), Burst: r.Burst}
	}
	if s.Weight != nil {
		if *s.Weight <= 0 {
			return out, unprocessable("/weight", "must be greater than 0")
		}
		out.Weight = *s.Weight
	}
	return out, nil
}

func (c *call) key() string { return c.query.Get("key") }

func (c *call) listPartitions() (any, error) {
	if err := c.view(c.queue(), ""); err != nil {
		return nil, err
	}
	out, cut := PartitionList{Items: []*Partition{}}, false
	for p, err := range survey.AtMost(mostPartitions, &cut, c.inspect().Partitions(c.r.Context(), c.queue())) {
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(p.Key, c.str("prefix")) {
			out.Items = append(out.Items, newPartition(p))
		}
	}
	out.Total, out.Complete = len(out.Items), !cut
	slices.SortStableFunc(out.Items, func(a, b *Partition) int {
		switch c.str("sort") {
		case "key":
			return strings.Compare(a.Key, b.Key)
		case "active":
			return b.Active - a.Active
		case "latency":
			return cmp.Compare(b.Latency, a.Latency)
		}
		return b.Held - a.Held
	})
	from := min(c.num("offset"), len(out.Items))
	out.Items = out.Items[from:min(len(out.Items), from+c.num("limit"))]
	return out, nil
}

func (c *call) getPartition() (any, error) {
	if err := c.view(c.queue(), ""); err != nil {
		return nil, err
	}
	return c.partition()
}

func (c *call) partition() (any, error) {
	p, err := c.inspect().GetPartitionInfo(c.r.Context(), c.queue(), c.key())
	if err != nil {
		return nil, partitionProblem(err)
	}
	return newPartition(p), nil
}

// partitionProblem returns the problem of an error about a partition: an invalid key or setting.
func partitionProblem(err error) error {
	if text, ok := strings.CutPrefix(err.Error(), "asynq: partition"); ok {
		return invalid(422, Wrong{Parameter: "key", Detail: "partition" + text})
	}
	return err
}

// changePartition changes a partition and returns its state.
func (c *call) changePartition(do func(ctx context.Context, i *asynq.Inspector) error) (any, error) {
	a := access.Action{Verb: access.PartitionSet, Queue: c.queue(), Part: new(c.key())}
	if err := c.allow(a); err != nil {
		return nil, err
	}
	err := do(c.r.Context(), c.inspect())
	c.done(a, err)
	if err != nil {
		return nil, partitionProblem(err)
	}
	return c.partition()
}

func (c *call) setPartition() (any, error) {
	var input PartitionSettings
	if err := c.read(&input); err != nil {
		return nil, err
	}
	settings, err := input.settings()
	if err != nil {
		return nil, err
	}
	return c.changePartition(func(ctx context.Context, i *asynq.Inspector) error {
		return i.UpdatePartition(ctx, c.queue(), c.key(), func(s *asynq.PartitionSettings) error {
			settings.Paused = s.Paused
			*s = settings
			return nil
		})
	})
}

func (c *call) pausePartition() (any, error) {
	return c.changePartition(func(ctx context.Context, i *asynq.Inspector) error { return i.PausePartition(ctx, c.queue(), c.key()) })
}

func (c *call) resumePartition() (any, error) {
	return c.changePartition(func(ctx context.Context, i *asynq.Inspector) error { return i.ResumePartition(ctx, c.queue(), c.key()) })
}

// PartitionChange is the result of a change of the tasks of a partition.
type PartitionChange struct {
	Tasks int `json:"tasks"`
}

func (c *call) cancelPartition() (any, error) {
	return c.changePartitionTasks(access.TaskCancel, "active", (*asynq.Inspector).CancelPartitionTasks)
}

func (c *call) deletePartitionTasks() (any, error) {
	return c.changePartitionTasks(access.TaskDelete, "", (*asynq.Inspector).DeletePartitionTasks)
}

func (c *call) changePartitionTasks(verb access.Verb, state string, do func(*asynq.Inspector, context.Context, string, string) (int, error)) (any, error) {
	a := access.Action{Verb: verb, Queue: c.queue(), Part: new(c.key()), State: state}
	if err := c.allow(a); err != nil {
		return nil, err
	}
	var err error
	a.Count, err = do(c.inspect(), c.r.Context(), c.queue(), c.key())
	c.done(a, err)
	if err != nil {
		return nil, partitionProblem(err)
	}
	return PartitionChange{a.Count}, nil
}
