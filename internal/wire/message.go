package wire

import "time"

// TaskMessage is what Redis keeps of a task. The times in it are whole seconds; zero means none.
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

// ServerInfo is what a server tells of itself.
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

// WorkerInfo is what a server tells of one task that it runs.
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

// SchedulerEntry is what a scheduler tells of one periodic task.
type SchedulerEntry struct {
	ID             string    // 1
	Spec           string    // 2
	TaskType       string    // 3
	Payload        []byte    // 4
	EnqueueOptions []string  // 5, each as Go source
	Next           time.Time // 6
	Prev           time.Time // 7
}

// SchedulerEnqueueEvent tells that a periodic task was enqueued.
type SchedulerEnqueueEvent struct {
	TaskID     string    // 1
	EnqueuedAt time.Time // 2
}
