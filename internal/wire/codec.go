package wire

import (
	"bytes"
	"fmt"
	"strings"
)

// Each message below has one list of its fields to write and one to read, next to each other. They are written by hand
// because a task is encoded and decoded at every step of its life: without reflection that costs an allocation to encode
// and two to decode. The numbers and types are those of the comments in message.go.

// Encode returns m in protobuf, which is empty if all of m is zero. It fails if a text is not valid UTF-8 or an int is outside of
// int32; the error names the field. It allocates once, or twice if there are more than eight headers.
func (m *TaskMessage) Encode() ([]byte, error) { return m.Append(nil) }

// Append is Encode to the end of b. Into enough capacity it allocates nothing, or once if there are more than eight
// headers. With an error it returns b as it was.
func (m *TaskMessage) Append(b []byte) ([]byte, error) {
	var w writer
	m.write(&w)
	if w.err != nil {
		return b, fmt.Errorf("wire: encode TaskMessage: %w", w.err)
	}
	w.begin(b)
	m.write(&w)
	return w.b, nil
}

func (m *TaskMessage) write(w *writer) {
	w.text(1, "type", m.Type)
	w.bytes(2, m.Payload)
	w.text(3, "id", m.ID)
	w.text(4, "queue", m.Queue)
	w.int32(5, "retry", m.MaxRetry)
	w.int32(6, "retried", m.Retried)
	w.text(7, "error_msg", m.LastErr)
	w.int64(8, m.Timeout)
	w.int64(9, m.Deadline)
	w.text(10, "unique_key", m.UniqueKey)
	w.int64(11, m.LastFailedAt)
	w.int64(12, m.Retention)
	w.int64(13, m.CompletedAt)
	w.text(14, "group_key", m.Group)
	w.texts(15, "headers", m.Headers)
}

// DecodeTaskMessage reads a TaskMessage, and keeps b: the payload is a part of b, cut off so that appending to it reaches
// nothing else. The caller hands b over and must not write to it again. A payload that is absent or empty is nil.
//
// It allocates the message and one string that all texts are parts of, so keeping any of them keeps all of them, but not
// the payload. Headers add their map.
func DecodeTaskMessage(b []byte) (*TaskMessage, error) {
	var (
		m                                              TaskMessage
		typename, id, queue, lastErr, uniqueKey, group []byte
		few                                            [8]struct{ key, value []byte } // On the stack, enough for most.
		headers                                        = few[:0]
		r                                              = reader{rest: b}
	)
	for r.next() {
		switch r.num {
		case 1:
			typename = r.text()
		case 2:
			m.Payload = r.bytes()
		case 3:
			id = r.text()
		case 4:
			queue = r.text()
		case 5:
			m.MaxRetry = r.int32()
		case 6:
			m.Retried = r.int32()
		case 7:
			lastErr = r.text()
		case 8:
			m.Timeout = r.int64()
		case 9:
			m.Deadline = r.int64()
		case 10:
			uniqueKey = r.text()
		case 11:
			m.LastFailedAt = r.int64()
		case 12:
			m.Retention = r.int64()
		case 13:
			m.CompletedAt = r.int64()
		case 14:
			group = r.text()
		case 15:
			key, value := r.textEntry()
			headers = append(headers, struct{ key, value []byte }{key, value})
		}
	}
	if r.err != nil {
		return nil, fmt.Errorf("wire: decode TaskMessage: %w", r.err)
	}

	size := len(typename) + len(id) + len(queue) + len(lastErr) + len(uniqueKey) + len(group)
	for _, h := range headers {
		size += len(h.key) + len(h.value)
	}
	var text strings.Builder
	text.Grow(size)
	m.Type = share(&text, typename)
	m.ID = share(&text, id)
	m.Queue = share(&text, queue)
	m.LastErr = share(&text, lastErr)
	m.UniqueKey = share(&text, uniqueKey)
	m.Group = share(&text, group)
	if len(headers) > 0 {
		m.Headers = make(map[string]string, len(headers))
		for _, h := range headers {
			m.Headers[share(&text, h.key)] = share(&text, h.value)
		}
	}
	return &m, nil
}

// share adds v to text and returns it as a part of text. Later additions leave it as it is: a builder only appends.
func share(text *strings.Builder, v []byte) string {
	start := text.Len()
	text.Write(v)
	return text.String()[start:]
}

// Encode returns s in protobuf. It fails if a text is not valid UTF-8 or an int is outside of int32; the error names the
// field.
func (s *ServerInfo) Encode() ([]byte, error) { return encode("ServerInfo", s) }

func (s *ServerInfo) write(w *writer) {
	w.text(1, "host", s.Host)
	w.int32(2, "pid", s.PID)
	w.text(3, "server_id", s.ServerID)
	w.int32(4, "concurrency", s.Concurrency)
	w.int32s(5, "queues", s.Queues)
	w.bool(6, s.StrictPriority)
	w.text(7, "status", s.Status)
	w.time(8, s.StartTime)
	w.int32(9, "active_worker_count", s.ActiveWorkerCount)
}

// DecodeServerInfo reads a ServerInfo. It keeps nothing of b.
func DecodeServerInfo(b []byte) (*ServerInfo, error) {
	var (
		s     ServerInfo
		start timestamp
		r     = reader{rest: b}
	)
	for r.next() {
		switch r.num {
		case 1:
			s.Host = string(r.text())
		case 2:
			s.PID = r.int32()
		case 3:
			s.ServerID = string(r.text())
		case 4:
			s.Concurrency = r.int32()
		case 5:
			name, priority := r.int32Entry()
			if s.Queues == nil {
				s.Queues = make(map[string]int)
			}
			s.Queues[string(name)] = priority
		case 6:
			s.StrictPriority = r.bool()
		case 7:
			s.Status = string(r.text())
		case 8:
			r.merge(&start)
		case 9:
			s.ActiveWorkerCount = r.int32()
		}
	}
	if r.err != nil {
		return nil, fmt.Errorf("wire: decode ServerInfo: %w", r.err)
	}
	s.StartTime = start.time()
	return &s, nil
}

// Encode returns i in protobuf. It fails if a text is not valid UTF-8 or an int is outside of int32; the error names the
// field.
func (i *WorkerInfo) Encode() ([]byte, error) { return encode("WorkerInfo", i) }

func (i *WorkerInfo) write(w *writer) {
	w.text(1, "host", i.Host)
	w.int32(2, "pid", i.PID)
	w.text(3, "server_id", i.ServerID)
	w.text(4, "task_id", i.TaskID)
	w.text(5, "task_type", i.TaskType)
	w.bytes(6, i.Payload)
	w.text(7, "queue", i.Queue)
	w.time(8, i.StartTime)
	w.time(9, i.Deadline)
}

// DecodeWorkerInfo reads a WorkerInfo. It keeps nothing of b. A payload that is absent or empty is nil.
func DecodeWorkerInfo(b []byte) (*WorkerInfo, error) {
	var (
		i               WorkerInfo
		start, deadline timestamp
		r               = reader{rest: b}
	)
	for r.next() {
		switch r.num {
		case 1:
			i.Host = string(r.text())
		case 2:
			i.PID = r.int32()
		case 3:
			i.ServerID = string(r.text())
		case 4:
			i.TaskID = string(r.text())
		case 5:
			i.TaskType = string(r.text())
		case 6:
			i.Payload = bytes.Clone(r.bytes())
		case 7:
			i.Queue = string(r.text())
		case 8:
			r.merge(&start)
		case 9:
			r.merge(&deadline)
		}
	}
	if r.err != nil {
		return nil, fmt.Errorf("wire: decode WorkerInfo: %w", r.err)
	}
	i.StartTime, i.Deadline = start.time(), deadline.time()
	return &i, nil
}

// Encode returns e in protobuf. It fails if a text is not valid UTF-8; the error names the field.
func (e *SchedulerEntry) Encode() ([]byte, error) { return encode("SchedulerEntry", e) }

func (e *SchedulerEntry) write(w *writer) {
	w.text(1, "id", e.ID)
	w.text(2, "spec", e.Spec)
	w.text(3, "task_type", e.TaskType)
	w.bytes(4, e.Payload)
	w.list(5, "enqueue_options", e.EnqueueOptions)
	w.time(6, e.Next)
	w.time(7, e.Prev)
}

// DecodeSchedulerEntry reads a SchedulerEntry. It keeps nothing of b. A payload that is absent or empty is nil.
func DecodeSchedulerEntry(b []byte) (*SchedulerEntry, error) {
	var (
		e          SchedulerEntry
		next, prev timestamp
		r          = reader{rest: b}
	)
	for r.next() {
		switch r.num {
		case 1:
			e.ID = string(r.text())
		case 2:
			e.Spec = string(r.text())
		case 3:
			e.TaskType = string(r.text())
		case 4:
			e.Payload = bytes.Clone(r.bytes())
		case 5:
			e.EnqueueOptions = append(e.EnqueueOptions, string(r.text()))
		case 6:
			r.merge(&next)
		case 7:
			r.merge(&prev)
		}
	}
	if r.err != nil {
		return nil, fmt.Errorf("wire: decode SchedulerEntry: %w", r.err)
	}
	e.Next, e.Prev = next.time(), prev.time()
	return &e, nil
}

// Encode returns e in protobuf. It fails if the task ID is not valid UTF-8.
func (e *SchedulerEnqueueEvent) Encode() ([]byte, error) { return encode("SchedulerEnqueueEvent", e) }

func (e *SchedulerEnqueueEvent) write(w *writer) {
	w.text(1, "task_id", e.TaskID)
	w.time(2, e.EnqueuedAt)
}

// DecodeSchedulerEnqueueEvent reads a SchedulerEnqueueEvent. It keeps nothing of b.
func DecodeSchedulerEnqueueEvent(b []byte) (*SchedulerEnqueueEvent, error) {
	var (
		e  SchedulerEnqueueEvent
		at timestamp
		r  = reader{rest: b}
	)
	for r.next() {
		switch r.num {
		case 1:
			e.TaskID = string(r.text())
		case 2:
			r.merge(&at)
		}
	}
	if r.err != nil {
		return nil, fmt.Errorf("wire: decode SchedulerEnqueueEvent: %w", r.err)
	}
	e.EnqueuedAt = at.time()
	return &e, nil
}
