package wire_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/asynq-go/asynq/internal/wire"
)

// kind describes one of the five messages for tests that cover all of them.
type kind struct {
	name   string                    // in protobuf
	encode func(any) ([]byte, error) // of a pointer to the message
	decode func([]byte) (any, error) // to such a pointer
	values func(any) map[string]any  // by the protobuf names of the fields
	any    *rapid.Generator[any]     // random messages in the form that decoding returns
}

var kinds = []kind{
	newKind("TaskMessage", (*wire.TaskMessage).Encode, wire.DecodeTaskMessage,
		func(m *wire.TaskMessage) map[string]any {
			return map[string]any{
				"type": m.Type, "payload": m.Payload, "id": m.ID, "queue": m.Queue, "retry": m.MaxRetry, "retried": m.Retried,
				"error_msg": m.LastErr, "timeout": m.Timeout, "deadline": m.Deadline, "unique_key": m.UniqueKey,
				"last_failed_at": m.LastFailedAt, "retention": m.Retention, "completed_at": m.CompletedAt,
				"group_key": m.Group, "headers": m.Headers,
			}
		},
		func(t *rapid.T) *wire.TaskMessage {
			return &wire.TaskMessage{
				Type:         rapid.String().Draw(t, "Type"),
				Payload:      payloads().Draw(t, "Payload"),
				ID:           rapid.String().Draw(t, "ID"),
				Queue:        rapid.String().Draw(t, "Queue"),
				MaxRetry:     int(rapid.Int32().Draw(t, "MaxRetry")),
				Retried:      int(rapid.Int32().Draw(t, "Retried")),
				LastErr:      rapid.String().Draw(t, "LastErr"),
				Timeout:      rapid.Int64().Draw(t, "Timeout"),
				Deadline:     rapid.Int64().Draw(t, "Deadline"),
				UniqueKey:    rapid.String().Draw(t, "UniqueKey"),
				LastFailedAt: rapid.Int64().Draw(t, "LastFailedAt"),
				Retention:    rapid.Int64().Draw(t, "Retention"),
				CompletedAt:  rapid.Int64().Draw(t, "CompletedAt"),
				Group:        rapid.String().Draw(t, "Group"),
				Headers:      mapsOf(rapid.String()).Draw(t, "Headers"),
			}
		}),
	newKind("ServerInfo", (*wire.ServerInfo).Encode, wire.DecodeServerInfo,
		func(s *wire.ServerInfo) map[string]any {
			return map[string]any{
				"host": s.Host, "pid": s.PID, "server_id": s.ServerID, "concurrency": s.Concurrency, "queues": s.Queues,
				"strict_priority": s.StrictPriority, "status": s.Status, "start_time": s.StartTime,
				"active_worker_count": s.ActiveWorkerCount,
			}
		},
		func(t *rapid.T) *wire.ServerInfo {
			return &wire.ServerInfo{
				Host:              rapid.String().Draw(t, "Host"),
				PID:               int(rapid.Int32().Draw(t, "PID")),
				ServerID:          rapid.String().Draw(t, "ServerID"),
				Concurrency:       int(rapid.Int32().Draw(t, "Concurrency")),
				Queues:            mapsOf(rapid.Map(rapid.Int32(), func(n int32) int { return int(n) })).Draw(t, "Queues"),
				StrictPriority:    rapid.Bool().Draw(t, "StrictPriority"),
				Status:            rapid.String().Draw(t, "Status"),
				StartTime:         times().Draw(t, "StartTime"),
				ActiveWorkerCount: int(rapid.Int32().Draw(t, "ActiveWorkerCount")),
			}
		}),
	newKind("WorkerInfo", (*wire.WorkerInfo).Encode, wire.DecodeWorkerInfo,
		func(i *wire.WorkerInfo) map[string]any {
			return map[string]any{
				"host": i.Host, "pid": i.PID, "server_id": i.ServerID, "task_id": i.TaskID, "task_type": i.TaskType,
				"task_payload": i.Payload, "queue": i.Queue, "start_time": i.StartTime, "deadline": i.Deadline,
			}
		},
		func(t *rapid.T) *wire.WorkerInfo {
			return &wire.WorkerInfo{
				Host:      rapid.String().Draw(t, "Host"),
				PID:       int(rapid.Int32().Draw(t, "PID")),
				ServerID:  rapid.String().Draw(t, "ServerID"),
				TaskID:    rapid.String().Draw(t, "TaskID"),
				TaskType:  rapid.String().Draw(t, "TaskType"),
				Payload:   payloads().Draw(t, "Payload"),
				Queue:     rapid.String().Draw(t, "Queue"),
				StartTime: times().Draw(t, "StartTime"),
				Deadline:  times().Draw(t, "Deadline"),
			}
		}),
	newKind("SchedulerEntry", (*wire.SchedulerEntry).Encode, wire.DecodeSchedulerEntry,
		func(e *wire.SchedulerEntry) map[string]any {
			return map[string]any{
				"id": e.ID, "spec": e.Spec, "task_type": e.TaskType, "task_payload": e.Payload,
				"enqueue_options": e.EnqueueOptions, "next_enqueue_time": e.Next, "prev_enqueue_time": e.Prev,
			}
		},
		func(t *rapid.T) *wire.SchedulerEntry {
			return &wire.SchedulerEntry{
				ID:             rapid.String().Draw(t, "ID"),
				Spec:           rapid.String().Draw(t, "Spec"),
				TaskType:       rapid.String().Draw(t, "TaskType"),
				Payload:        payloads().Draw(t, "Payload"),
				EnqueueOptions: orNil(rapid.SliceOf(rapid.String())).Draw(t, "EnqueueOptions"),
				Next:           times().Draw(t, "Next"),
				Prev:           times().Draw(t, "Prev"),
			}
		}),
	newKind("SchedulerEnqueueEvent", (*wire.SchedulerEnqueueEvent).Encode, wire.DecodeSchedulerEnqueueEvent,
		func(e *wire.SchedulerEnqueueEvent) map[string]any {
			return map[string]any{"task_id": e.TaskID, "enqueue_time": e.EnqueuedAt}
		},
		func(t *rapid.T) *wire.SchedulerEnqueueEvent {
			return &wire.SchedulerEnqueueEvent{
				TaskID:     rapid.String().Draw(t, "TaskID"),
				EnqueuedAt: times().Draw(t, "EnqueuedAt"),
			}
		}),
}

func newKind[M any](
	name string,
	encode func(*M) ([]byte, error),
	decode func([]byte) (*M, error),
	values func(*M) map[string]any,
	draw func(*rapid.T) *M,
) kind {
	return kind{
		name:   name,
		encode: func(m any) ([]byte, error) { return encode(m.(*M)) },
		decode: func(b []byte) (any, error) {
			m, err := decode(b)
			if (m == nil) != (err != nil) {
				return nil, fmt.Errorf("decoded to %v with the error %w", m, err)
			}
			return m, err
		},
		values: func(m any) map[string]any { return values(m.(*M)) },
		any:    rapid.Custom(func(t *rapid.T) any { return draw(t) }),
	}
}

// kindOf returns the kind of a pointer to a message.
func kindOf(t testing.TB, m any) kind {
	t.Helper()
	name := reflect.TypeOf(m).Elem().Name()
	for _, k := range kinds {
		if k.name == name {
			return k
		}
	}
	t.Fatalf("%s is not a message", name)
	return kind{}
}

func payloads() *rapid.Generator[[]byte] { return orNil(rapid.SliceOf(rapid.Byte())) }

// orNil replaces empty slices by nil, as decoding does.
func orNil[T any](g *rapid.Generator[[]T]) *rapid.Generator[[]T] {
	return rapid.Map(g, func(s []T) []T {
		if len(s) == 0 {
			return nil
		}
		return s
	})
}

// mapsOf generates maps, some with more entries than the codec has space for on the stack. Empty
// ones are nil.
func mapsOf[V any](values *rapid.Generator[V]) *rapid.Generator[map[string]V] {
	return rapid.Map(rapid.MapOfN(rapid.String(), values, 0, 20), func(m map[string]V) map[string]V {
		if len(m) == 0 {
			return nil
		}
		return m
	})
}

// times generates times of the years 1 to 9999, often the zero time.
func times() *rapid.Generator[time.Time] {
	return rapid.OneOf(
		rapid.Just(time.Time{}),
		rapid.Custom(func(t *rapid.T) time.Time {
			seconds := rapid.Int64Range(-62135596800, 253402300799).Draw(t, "seconds")
			return time.Unix(seconds, rapid.Int64Range(0, 999_999_999).Draw(t, "nanos")).UTC()
		}),
	)
}
