package survey

import (
	"context"
	"errors"
	"time"

	"github.com/asynq-go/asynq"
)

// Groups are the groups of all queues at one time. It is immutable.
type Groups struct {
	At     time.Time
	Rows   []Group // by queue and name
	Broken []Broken
}

// Group is one group that contains tasks.
type Group struct {
	Queue, Name string
	Size        int
	Oldest      time.Time // when its oldest task was added; zero if unknown
}

// Groups lists the groups of all queues. The list is at most a few seconds old, unless Redis is
// slow.
func (s *Survey) Groups(ctx context.Context) (*Groups, error) { return s.groups.Get(ctx) }

func (s *Survey) listGroups(ctx context.Context, _ func(*Groups)) (*Groups, error) {
	g := &Groups{At: time.Now()}
	infos, err := s.cfg.Inspector.WithMemorySamples(0).QueueInfos(ctx)
	if err != nil {
		return nil, err
	}
	inspector := s.cfg.Inspector.WithContext(ctx)
	for _, q := range infos {
		if q.Err != nil {
			g.Broken = append(g.Broken, Broken{q.Queue, q.Err})
			continue
		}
		if q.Info.Groups == 0 {
			continue
		}
		groups, err := inspector.Groups(q.Queue)
		switch {
		case errors.Is(err, asynq.ErrQueueNotFound):
		case ctx.Err() != nil:
			return nil, err
		case err != nil:
			g.Broken = append(g.Broken, Broken{q.Queue, err})
		}
		for _, group := range groups {
			g.Rows = append(g.Rows, Group{Queue: q.Queue, Name: group.Group, Size: group.Size, Oldest: group.Oldest})
		}
	}
	return g, nil
}
