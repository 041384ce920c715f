package wire

import "time"

// TaskMessage is the message of a task, in the msg field of its hash. Times are whole seconds; zero
// means none. The comments give the protobuf field numbers, also of the other messages.
type TaskMessage struct {
	Type         string            // 1
	Payload      []byte            // 2
	ID           string            // 3
	Queue        string            // 4
	MaxRetry     int               // 5, int32
	Retried      int               // 6, int32
	LastErr      string            // 7
	Timeout      int64             // 8, seconds
	Deadline     int64             // 9, unix seconds
	UniqueKey    string            // 10
	LastFailedAt int64             // 11, unix seconds
	Retention    int64             // 12, seconds
	CompletedAt  int64             // 13, unix seconds
	Group        string            // 14
	Headers      map[string]string // 15
}

// ServerInfo describes a server.
type ServerInfo struct {
	Host              string         // 1
	PID               int            // 2, int32
	ServerID          string         // 3
	Concurrency       int            // 4, int32
	Queues            map[string]int // 5, map<string,int32>
	StrictPriority    bool           // 6
	Status            string         // 7: new, active, stopped or closed
	StartTime         time.Time      // 8
	ActiveWorkerCount int            // 9, int32
}

// WorkerInfo describes an active task of a server.
type WorkerInfo struct {
	Host      string    // 1
	PID       int       // 2, int32
	ServerID  string    // 3
	TaskID    string    // 4
	TaskType  string    // 5
	Payload   []byte    // 6
	Queue     string    // 7
	StartTime time.Time // 8
	Deadline  time.Time // 9
}

// SchedulerEntry describes an entry of a scheduler.
type SchedulerEntry struct {
	ID             string    // 1
	Spec           string    // 2
	TaskType       string    // 3
	Payload        []byte    // 4
	EnqueueOptions []string  // 5, each as Go source
	Next           time.Time // 6
	Prev           time.Time // 7
}

// SchedulerEnqueueEvent records that an entry enqueued a task.
type SchedulerEnqueueEvent struct {
	TaskID     string    // 1
	EnqueuedAt time.Time // 2
}
