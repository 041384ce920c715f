package config

import (
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/service"
	"github.com/asynq-go/asynq/x/service/internal/api"
)

func (d *decoder) queues(n *yaml.Node) map[string]service.QueueConfig {
	queues := make(map[string]service.QueueConfig)
	d.each(n, func(name string, at, n *yaml.Node) {
		if err := api.CheckQueueName(name); err != nil {
			d.errorf(at, "%v", err)
		}
		var q service.QueueConfig
		d.mapping(n, fields{
			"max_run": &q.MaxRun, "in_order": &q.InOrder, "weight": bound{&q.Weight}, "max_retry": &q.MaxRetry, "timeout": &q.Timeout, "retention": &q.Retention,
			"archive":    func(n *yaml.Node) { d.archive(n, &q.Archive) },
			"partitions": func(n *yaml.Node) { q.Partitions = d.partitions(n) },
		})
		if err := q.Check(); err != nil {
			d.errorf(n, "queue %q: %v", name, err)
		}
		queues[name] = q
	})
	return queues
}

// partitions reads the limits of partitions. The caller validates them.
func (d *decoder) partitions(n *yaml.Node) *asynq.PartitionConfig {
	p := new(asynq.PartitionConfig)
	var rate asynq.RateLimit
	nodes := d.mapping(n, fields{
		"max_run": bound{&p.Concurrency}, "rate": bound{&rate.Events}, "per": bound{&rate.Per}, "burst": bound{&rate.Burst},
		"in_order": &p.Ordered, "by_type": &p.ByType, "weight": bound{&p.Weight},
	})
	switch {
	case nodes["rate"] != nil:
		if nodes["per"] == nil {
			rate.Per = time.Second
		}
		p.Rate = rate
	case nodes["per"] != nil || nodes["burst"] != nil:
		d.errorf(n, "per and burst need rate, the number of tasks of a partition that start in each period")
	}
	return p
}

// archive reads the limits of archives. The caller validates them.
func (d *decoder) archive(n *yaml.Node, to *asynq.ArchiveConfig) {
	d.mapping(n, fields{"max_tasks": bound{&to.MaxTasks}, "max_age": bound{&to.MaxAge}})
}

func (d *decoder) taskQueues(n *yaml.Node) map[string]string {
	queues := make(map[string]string)
	d.each(n, func(pattern string, at, n *yaml.Node) {
		if pattern == "" || strings.Contains(strings.TrimSuffix(pattern, "*"), "*") {
			d.errorf(at, "%q is not a type pattern: use a type, or a prefix followed by \"*\"", pattern)
		}
		var queue string
		before := len(d.errs)
		d.value(n, &queue)
		if err := api.CheckQueueName(queue); err != nil && len(d.errs) == before {
			d.errorf(n, "%v", err)
		}
		queues[pattern] = queue
	})
	return queues
}
