package wire

import (
	"fmt"
	"strings"
)

// Messages are encoded and decoded by hand, without reflection. Field numbers and types are those
// of the comments in message.go.
//
// A task is encoded and decoded at every step of its life: that costs one allocation to encode and
// two to decode. So TaskMessage has a list of its fields to write and one to read. The other
// messages have one list for both.

// Encode returns m in protobuf, which is empty for the zero value. It fails if a text is not valid
// UTF-8 or an int does not fit into int32; the error names the field. It allocates once, or twice
// for more than eight headers.
func (m *TaskMessage) Encode() ([]byte, error) {
	w := writer{b: make([]byte, 0, m.typicalSize())}
	m.write(&w)
	if w.err != nil {
		return nil, fmt.Errorf("wire: encode TaskMessage: %w", w.err)
	}
	return w.b, nil
}

// typicalSize returns the encoded size, rounded up. Only negative numbers make it larger.
func (m *TaskMessage) typicalSize() int {
	const head = 1 + 5 // a field number, and a length or a number below 2³⁵
	size := 15*head + len(m.Type) + len(m.Payload) + len(m.ID) + len(m.Queue) + len(m.LastErr) + len(m.UniqueKey) + len(m.Group)
	for k, v := range m.Headers {
		size += 3*head + len(k) + len(v)
	}
	return size
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

// DecodeTaskMessage decodes a TaskMessage. It retains b, because the payload is a part of it, with
// no spare capacity: the caller must not write to b again. An absent or empty payload is nil.
//
// It allocates the message and one string of which all texts are parts, so that retaining one
// retains all of them, but not the payload. Headers add a map.
func DecodeTaskMessage(b []byte) (*TaskMessage, error) {
	var (
		m                                              TaskMessage
		typename, id, queue, lastErr, uniqueKey, group []byte
		few                                            [8]struct{ key, value []byte } // on the stack, enough for most tasks
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

// share appends v to text and returns it as a part of text, which stays valid: a builder only
// appends.
func share(text *strings.Builder, v []byte) string {
	start := text.Len()
	text.Write(v)
	return text.String()[start:]
}

// Encode returns s in protobuf. It fails if a text is not valid UTF-8 or an int does not fit into
// int32; the error names the field.
func (s *ServerInfo) Encode() ([]byte, error) { return encode("ServerInfo", s.fields) }

// DecodeServerInfo decodes a ServerInfo. It does not retain b.
func DecodeServerInfo(b []byte) (*ServerInfo, error) { return decode[ServerInfo]("ServerInfo", b) }

func (s *ServerInfo) fields(c *codec) {
	c.text(1, "host", &s.Host)
	c.int32(2, "pid", &s.PID)
	c.text(3, "server_id", &s.ServerID)
	c.int32(4, "concurrency", &s.Concurrency)
	c.int32s(5, "queues", &s.Queues)
	c.bool(6, &s.StrictPriority)
	c.text(7, "status", &s.Status)
	c.time(8, &s.StartTime)
	c.int32(9, "active_worker_count", &s.ActiveWorkerCount)
}

// Encode returns i in protobuf. It fails if a text is not valid UTF-8 or an int does not fit into
// int32; the error names the field.
func (i *WorkerInfo) Encode() ([]byte, error) { return encode("WorkerInfo", i.fields) }

// DecodeWorkerInfo decodes a WorkerInfo. It does not retain b. An absent or empty payload is nil.
func DecodeWorkerInfo(b []byte) (*WorkerInfo, error) { return decode[WorkerInfo]("WorkerInfo", b) }

func (i *WorkerInfo) fields(c *codec) {
	c.text(1, "host", &i.Host)
	c.int32(2, "pid", &i.PID)
	c.text(3, "server_id", &i.ServerID)
	c.text(4, "task_id", &i.TaskID)
	c.text(5, "task_type", &i.TaskType)
	c.bytes(6, &i.Payload)
	c.text(7, "queue", &i.Queue)
	c.time(8, &i.StartTime)
	c.time(9, &i.Deadline)
}

// Encode returns e in protobuf. It fails if a text is not valid UTF-8; the error names the field.
func (e *SchedulerEntry) Encode() ([]byte, error) { return encode("SchedulerEntry", e.fields) }

// DecodeSchedulerEntry decodes a SchedulerEntry. It does not retain b. An absent or empty payload
// is nil.
func DecodeSchedulerEntry(b []byte) (*SchedulerEntry, error) {
	return decode[SchedulerEntry]("SchedulerEntry", b)
}

func (e *SchedulerEntry) fields(c *codec) {
	c.text(1, "id", &e.ID)
	c.text(2, "spec", &e.Spec)
	c.text(3, "task_type", &e.TaskType)
	c.bytes(4, &e.Payload)
	c.list(5, "enqueue_options", &e.EnqueueOptions)
	c.time(6, &e.Next)
	c.time(7, &e.Prev)
}

// Encode returns e in protobuf. It fails if the task ID is not valid UTF-8.
func (e *SchedulerEnqueueEvent) Encode() ([]byte, error) {
	return encode("SchedulerEnqueueEvent", e.fields)
}

// DecodeSchedulerEnqueueEvent decodes a SchedulerEnqueueEvent. It does not retain b.
func DecodeSchedulerEnqueueEvent(b []byte) (*SchedulerEnqueueEvent, error) {
	return decode[SchedulerEnqueueEvent]("SchedulerEnqueueEvent", b)
}

func (e *SchedulerEnqueueEvent) fields(c *codec) {
	c.text(1, "task_id", &e.TaskID)
	c.time(2, &e.EnqueuedAt)
}
