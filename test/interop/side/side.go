// Package side defines the interfaces of a library in the scenarios: client, server, inspector and
// scheduler.
package side

import (
	"context"
	"time"
)

// Library is one of the two libraries.
type Library interface {
	Name() string
	Client(addr string) Client
	Server(addr string, cfg Config) Server
	Inspector(addr string) Inspector
	Scheduler(addr string) Scheduler
	Errors() Errors
}

// Errors holds the errors of the library.
type Errors struct {
	Duplicate, IDConflict                      error
	QueueNotFound, QueueNotEmpty, TaskNotFound error
	SkipRetry, Revoke                          error
}

// Task is a task to enqueue. A zero field means the default of the library.
type Task struct {
	Type      string
	Payload   []byte
	Headers   map[string]string
	ID        string
	Queue     string
	MaxRetry  int // -1 means none
	Timeout   time.Duration
	Deadline  time.Time
	Unique    time.Duration
	ProcessIn time.Duration
	Retention time.Duration
	Group     string
}

// Client enqueues tasks.
type Client interface {
	Enqueue(t Task) (*Info, error)
	Close() error
}

// Job is an attempt of a task, as passed to a handler.
type Job struct {
	ID, Queue, Type   string
	Payload           []byte
	Headers           map[string]string
	Retried, MaxRetry int
	WriteResult       func(data []byte) error
}

// Handler processes tasks.
type Handler func(ctx context.Context, j *Job) error

// Config configures a server. All its intervals are as short as the library permits.
type Config struct {
	Concurrency int
	Queues      []string
	RetryDelay  time.Duration
	Aggregate   func(group string, payloads [][]byte) Task // if nil, the server does not aggregate
}

// Server processes tasks.
type Server interface {
	Start(h Handler) error
	Run(h Handler) error // runs until a signal
	Shutdown()
}

// Scheduler enqueues tasks periodically.
type Scheduler interface {
	Register(spec string, t Task) (entryID string, err error)
	Start() error
	Shutdown()
}

// Inspector reads and changes queues. States have the names of the libraries, such as "pending".
type Inspector interface {
	Task(queue, id string) (*Info, error)
	List(queue, state, group string) ([]*Info, error)
	Queue(queue string) (*QueueInfo, error)
	Queues() ([]string, error)
	Groups(queue string) (map[string]int, error)
	History(queue string, days int) ([]Day, error)

	Run(queue, id string) error
	Archive(queue, id string) error
	Delete(queue, id string) error
	RunAll(queue, state, group string) (int, error)
	ArchiveAll(queue, state, group string) (int, error)
	DeleteAll(queue, state, group string) (int, error)
	Pause(queue string) error
	Unpause(queue string) error
	DeleteQueue(queue string, force bool) error
	Cancel(id string) error

	Servers() ([]ServerInfo, error)
	Entries() ([]Entry, error)
	Events(entryID string) ([]string, error) // IDs of the tasks
	Close() error
}

// Info describes a task.
type Info struct {
	ID, Queue, Type, State, LastErr, Group               string
	Payload, Result                                      []byte
	Headers                                              map[string]string
	MaxRetry, Retried                                    int
	Timeout, Retention                                   time.Duration
	Deadline, LastFailedAt, NextProcessAt, CompletedTime time.Time
	Orphaned                                             bool
}

// QueueInfo is the state of a queue.
type QueueInfo struct {
	Size, Groups                                                        int
	Pending, Active, Scheduled, Retry, Archived, Completed, Aggregating int
	Processed, Failed, ProcessedTotal, FailedTotal                      int
	Paused                                                              bool
}

// Day holds the statistics of a queue on a day.
type Day struct{ Processed, Failed int }

// ServerInfo is a running server.
type ServerInfo struct {
	ID          string
	PID         int
	Concurrency int
	Queues      map[string]int
	Status      string
	Workers     map[string]string // task type by ID
}

// Entry is an entry of a scheduler.
type Entry struct {
	ID, Spec, Type string
	Payload        []byte
	Options        []string
}
