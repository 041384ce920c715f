package asynq

import (
	"cmp"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/wire"
)

// ServerInfo is what a running server tells of itself, every few seconds.
type ServerInfo struct {
	// ID of the server, unique.
	ID string

	// Host that the server runs on.
	Host string

	// PID of its process.
	PID int

	// Concurrency, Queues and StrictPriority are those of the server's Config.
	Concurrency    int
	Queues         map[string]int
	StrictPriority bool

	// Started is when the server started.
	Started time.Time

	// Status is "active", or "stopped" after Server.Stop.
	Status string

	// ActiveWorkers are the tasks that it processes, from the one on that it began first.
	ActiveWorkers []*WorkerInfo
}

// WorkerInfo is what a server tells of one task that it processes.
type WorkerInfo struct {
	// TaskID of the task.
	TaskID string

	// TaskType of the task.
	TaskType string

	// TaskPayload of the task; nil if it is more than 10,000 bytes: GetTaskInfo tells those.
	TaskPayload []byte

	// Queue that the task is from.
	Queue string

	// Started is when the attempt began.
	Started time.Time

	// Deadline is when the attempt must end.
	Deadline time.Time
}

// Servers lists the running servers, from the one on that started first. One that crashed is listed for up to ten seconds longer.
// What another process wrote and cannot be read is left out.
func (i *Inspector) Servers() ([]*ServerInfo, error) {
	type fleet struct {
		infos   []*wire.ServerInfo
		workers map[string][]*wire.WorkerInfo
	}
	found, err := until(i.ctx, func() (f fleet, err error) {
		f.infos, f.workers, err = i.broker.Servers(i.ctx)
		return f, err
	})
	if err != nil {
		return nil, brokerError(err)
	}
	servers := make([]*ServerInfo, len(found.infos))
	for n, s := range found.infos {
		servers[n] = &ServerInfo{
			ID: s.ServerID, Host: s.Host, PID: s.PID, Concurrency: s.Concurrency, Queues: s.Queues, StrictPriority: s.StrictPriority,
			Started: s.StartTime, Status: s.Status, ActiveWorkers: workersOf(found.workers[s.ServerID]),
		}
	}
	slices.SortFunc(servers, func(a, b *ServerInfo) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.ID, b.ID))
	})
	return servers, nil
}

func workersOf(infos []*wire.WorkerInfo) []*WorkerInfo {
	workers := make([]*WorkerInfo, len(infos))
	for n, w := range infos {
		workers[n] = &WorkerInfo{
			TaskID: w.TaskID, TaskType: w.TaskType, TaskPayload: w.Payload, Queue: w.Queue, Started: w.StartTime, Deadline: w.Deadline,
		}
	}
	slices.SortFunc(workers, func(a, b *WorkerInfo) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.TaskID, b.TaskID))
	})
	return workers
}

// ClusterNode is a node of a Redis Cluster.
type ClusterNode struct {
	// ID of the node in the cluster.
	ID string

	// Addr is the node's address as host:port.
	Addr string
}

// ClusterKeySlot tells the hash slot that all keys of a queue are in. It fails if Redis is no cluster.
func (i *Inspector) ClusterKeySlot(queue string) (int64, error) {
	slot, err := until(i.ctx, func() (int64, error) { return i.broker.Slot(i.ctx, queue) })
	if err != nil {
		return 0, brokerError(err)
	}
	return slot, nil
}

// ClusterNodes lists the nodes of a Redis Cluster that a queue is on, the master first. It fails if Redis is no cluster.
func (i *Inspector) ClusterNodes(queue string) ([]*ClusterNode, error) {
	found, err := until(i.ctx, func() ([]redis.ClusterNode, error) { return i.broker.Nodes(i.ctx, queue) })
	if err != nil {
		return nil, brokerError(err)
	}
	nodes := make([]*ClusterNode, len(found))
	for n, node := range found {
		nodes[n] = &ClusterNode{ID: node.ID, Addr: node.Addr}
	}
	return nodes, nil
}
