package asynq

import (
	"errors"
	"time"

	"github.com/asynq-go/asynq/internal/loops"
	"github.com/asynq-go/asynq/internal/rdb"
	"github.com/asynq-go/asynq/internal/wire"
	"github.com/asynq-go/asynq/internal/worker"
)

// groupQueues lists the queues of a lane whose groups this server aggregates.
func (srv *Server) groupQueues(lane []string) []loops.GroupQueue {
	var queues []loops.GroupQueue
	for _, name := range lane {
		c, ok := srv.cfg.GroupConfigs[name]
		if !ok {
			c = GroupConfig{
				GracePeriod: srv.cfg.GroupGracePeriod,
				MaxDelay:    srv.cfg.GroupMaxDelay,
				MaxSize:     srv.cfg.GroupMaxSize,
				Aggregator:  srv.cfg.GroupAggregator,
			}
		}
		if c.Aggregator == nil {
			continue
		}
		queues = append(queues, loops.GroupQueue{
			Name:    name,
			Rule:    rdb.GroupRule{Grace: c.GracePeriod, MaxDelay: max(c.MaxDelay, 0), MaxSize: max(c.MaxSize, 0)},
			Combine: srv.combine(name, c.Aggregator),
		})
	}
	return queues
}

// combine turns the tasks of a group into the order to make the one that stands for them.
func (srv *Server) combine(queue string, aggregator GroupAggregator) func(string, []*wire.TaskMessage) (rdb.NewTask, error) {
	return func(group string, messages []*wire.TaskMessage) (rdb.NewTask, error) {
		tasks := make([]*Task, len(messages))
		for i, msg := range messages {
			tasks[i] = &Task{typename: msg.Type, payload: msg.Payload, headers: msg.Headers}
		}
		var combined *Task
		if err := worker.Contain(func() { combined = aggregator.Aggregate(group, tasks) }); err != nil {
			return rdb.NewTask{}, err
		}
		if combined == nil {
			return rdb.NewTask{}, errors.New("the GroupAggregator returned no task")
		}
		made, err := newCreation(combined, []Option{Queue(queue)}, srv.broker.Keys, time.Now())
		if err != nil {
			return rdb.NewTask{}, err
		}
		return made.order, nil
	}
}
