package health

import (
	"fmt"
	"time"

	"github.com/asynq-go/asynq"
)

// Input is the data that is checked. Collect fills it in; a program that has the data already can
// do so itself. A check changes none of it.
type Input struct {
	At time.Time // when reading began, by the clock of this process

	// Err is why Redis is unreachable. The other fields are then ignored.
	Err error

	Problems Problems // the parts that could not be read

	Queues    []Queue // by name
	Servers   []*asynq.ServerInfo
	Entries   []*asynq.SchedulerEntry
	Processes []asynq.ProcessInfo
	Nodes     []Node
	Samples   []ErrorSample // see SampleErrors
	Stats     *Stats        // nil: unknown
	Mutes     []*asynq.Mute
}

// Problems are the errors of parts of an Input. The error of one queue is in its Queue, that of one
// Redis server in its Node.
type Problems struct {
	Queues, Servers, Entries, Processes, Redis, Samples, Stats, Mutes error
}

// list returns the problems as texts.
func (p Problems) list() []string {
	all := []string{}
	for _, part := range []struct {
		name string
		err  error
	}{
		{"queues", p.Queues}, {"servers", p.Servers}, {"schedulers", p.Entries}, {"processes", p.Processes},
		{"Redis", p.Redis}, {"failed tasks", p.Samples}, {"statistics", p.Stats}, {"mutes", p.Mutes},
	} {
		if part.err != nil {
			all = append(all, fmt.Sprintf("%s: %s", part.name, reason(part.err)))
		}
	}
	return all
}

// Queue is the state of a queue.
type Queue struct {
	Name string
	Info *asynq.QueueInfo // nil if Err is not nil
	Err  error

	// Unhandled are types of waiting tasks that no running server of the queue handles, the most
	// frequent first.
	Unhandled []asynq.UnhandledType
}

// ErrorSample is the last error of sampled tasks of one type in one queue that failed recently: of
// tasks in retry and archived ones, and of active ones whose server crashed.
type ErrorSample struct {
	Queue, Type string
	Kind        string // what the texts of the errors have in common, see asynq.ErrorKind
	Tasks       int    // number of sampled tasks with the error

	Failed int       // the most failed attempts of one of these tasks
	Task   string    // ID of the task with the most failed attempts
	First  time.Time // the earliest of their last failures
	Last   time.Time // the latest
}
