package wire_test

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/asynq-go/asynq/internal/wire"
)

func TestEncodeRejects(t *testing.T) {
	const broken = "a\xffb"
	type refusal struct {
		msg  any
		want string // in the error
	}
	tests := []refusal{
		{&wire.TaskMessage{Type: broken}, "type"},
		{&wire.TaskMessage{ID: broken}, "id"},
		{&wire.TaskMessage{Queue: broken}, "queue"},
		{&wire.TaskMessage{LastErr: broken}, "error_msg"},
		{&wire.TaskMessage{UniqueKey: broken}, "unique_key"},
		{&wire.TaskMessage{Group: broken}, "group_key"},
		{&wire.TaskMessage{Headers: map[string]string{broken: ""}}, "headers"},
		{&wire.TaskMessage{Headers: map[string]string{"": broken}}, "headers"},
		{&wire.ServerInfo{Host: broken}, "host"},
		{&wire.ServerInfo{ServerID: broken}, "server_id"},
		{&wire.ServerInfo{Queues: map[string]int{broken: 1}}, "queues"},
		{&wire.ServerInfo{Status: broken}, "status"},
		{&wire.WorkerInfo{Host: broken}, "host"},
		{&wire.WorkerInfo{ServerID: broken}, "server_id"},
		{&wire.WorkerInfo{TaskID: broken}, "task_id"},
		{&wire.WorkerInfo{TaskType: broken}, "task_type"},
		{&wire.WorkerInfo{Queue: broken}, "queue"},
		{&wire.SchedulerEntry{ID: broken}, "id"},
		{&wire.SchedulerEntry{Spec: broken}, "spec"},
		{&wire.SchedulerEntry{TaskType: broken}, "task_type"},
		{&wire.SchedulerEntry{EnqueueOptions: []string{"", broken}}, "enqueue_options"},
		{&wire.SchedulerEnqueueEvent{TaskID: broken}, "task_id"},
	}
	if strconv.IntSize > 32 { // elsewhere, every int fits into int32
		over, under := math.MaxInt32, math.MinInt32
		over++
		under--
		tests = append(tests, []refusal{
			{&wire.TaskMessage{MaxRetry: over}, "retry"},
			{&wire.TaskMessage{Retried: under}, "retried"},
			{&wire.ServerInfo{PID: over}, "pid"},
			{&wire.ServerInfo{Concurrency: over}, "concurrency"},
			{&wire.ServerInfo{Queues: map[string]int{"low": under}}, "queues"},
			{&wire.ServerInfo{ActiveWorkerCount: under}, "active_worker_count"},
			{&wire.WorkerInfo{PID: under}, "pid"},
		}...)
	}
	for _, tt := range tests {
		k := kindOf(t, tt.msg)
		t.Run(k.name+"/"+tt.want, func(t *testing.T) {
			b, err := k.encode(tt.msg)
			if err == nil {
				t.Fatalf("encoded to %x without an error", b)
			}
			if want := "wire: encode " + k.name + ": " + tt.want + " is "; !strings.HasPrefix(err.Error(), want) {
				t.Errorf("error %q does not begin with %q", err, want)
			}
			if b != nil {
				t.Errorf("encoded to %x with the error %v", b, err)
			}
		})
	}
}

func TestEncodeAcceptsBoundsOfInt32(t *testing.T) {
	msg := &wire.TaskMessage{MaxRetry: math.MaxInt32, Retried: math.MinInt32}
	b, err := msg.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := wire.DecodeTaskMessage(b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(msg, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Encoders in other languages may not extend the sign of an int32, and bits beyond the 32nd are
// ignored.
func TestDecodeDropsUpperBitsOfInt32(t *testing.T) {
	got, err := wire.DecodeTaskMessage([]byte{0x28, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x30, 0x81, 0x80, 0x80, 0x80, 0x10})
	want := &wire.TaskMessage{MaxRetry: -1, Retried: 1}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
}

func TestPayloadNilAndEmptyAreAlike(t *testing.T) {
	for _, payload := range [][]byte{nil, {}} {
		task, err := (&wire.TaskMessage{Payload: payload}).Encode()
		if err != nil || len(task) != 0 {
			t.Errorf("payload %#v: encoded to %x, error %v", payload, task, err)
		}
	}
	// other encoders may write an empty payload explicitly
	task, err := wire.DecodeTaskMessage([]byte{0x12, 0})
	if err != nil || task.Payload != nil {
		t.Errorf("TaskMessage: got %#v, error %v", task, err)
	}
	worker, err := wire.DecodeWorkerInfo([]byte{0x32, 0})
	if err != nil || worker.Payload != nil {
		t.Errorf("WorkerInfo: got %#v, error %v", worker, err)
	}
	entry, err := wire.DecodeSchedulerEntry([]byte{0x22, 0})
	if err != nil || entry.Payload != nil {
		t.Errorf("SchedulerEntry: got %#v, error %v", entry, err)
	}
}

// The handler owns the payload: writing to it must not change the rest of the message, and vice
// versa.
func TestPayloadIsIndependent(t *testing.T) {
	want := sampleTask()
	b, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := wire.DecodeTaskMessage(b)
	if err != nil {
		t.Fatal(err)
	}
	before := bytes.Clone(b)
	_ = append(got.Payload, "more"...)
	if !bytes.Equal(b, before) {
		t.Error("appending to the payload changed the input")
	}
	for i := range b { // including the payload
		b[i] = 'x'
	}
	if want := bytes.Repeat([]byte{'x'}, len(want.Payload)); !bytes.Equal(got.Payload, want) {
		t.Errorf("the payload is %q, not a part of the input", got.Payload)
	}
	got.Payload = want.Payload
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("texts changed with the input (-want +got):\n%s", diff)
	}
}

func TestOtherMessagesDoNotRetainInput(t *testing.T) {
	for _, msg := range []any{
		&wire.ServerInfo{Host: "host", Queues: map[string]int{"low": 1}},
		&wire.WorkerInfo{TaskID: "id", Payload: []byte("payload")},
		&wire.SchedulerEntry{ID: "id", Payload: []byte("payload"), EnqueueOptions: []string{`Queue("low")`}},
		&wire.SchedulerEnqueueEvent{TaskID: "id"},
	} {
		k := kindOf(t, msg)
		b, err := k.encode(msg)
		if err != nil {
			t.Fatal(err)
		}
		got, err := k.decode(b)
		if err != nil {
			t.Fatal(err)
		}
		clear(b)
		if diff := cmp.Diff(msg, got); diff != "" {
			t.Errorf("%s changed with the input (-want +got):\n%s", k.name, diff)
		}
	}
}

func TestTimes(t *testing.T) {
	elsewhere := time.FixedZone("", 5*3600)
	at := time.Date(2024, 2, 29, 1, 2, 3, 4, elsewhere)
	b, err := (&wire.WorkerInfo{StartTime: at}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := wire.DecodeWorkerInfo(b)
	if err != nil {
		t.Fatal(err)
	}
	if !got.StartTime.Equal(at) || got.StartTime.Location() != time.UTC {
		t.Errorf("got %v, want %v", got.StartTime, at.UTC())
	}
	if !got.Deadline.IsZero() || got.Deadline.Location() != time.UTC {
		t.Errorf("a zero time came back as %v", got.Deadline)
	}
	if got, err = wire.DecodeWorkerInfo(nil); err != nil || !got.StartTime.IsZero() {
		t.Errorf("an absent time: got %v, error %v", got.StartTime, err)
	}
	// nanoseconds outside of a second, which encoders must not write, are carried over
	got, err = wire.DecodeWorkerInfo([]byte{0x42, 0x0d, 8, 1, 0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	if want := time.Unix(1, -1); err != nil || !got.StartTime.Equal(want) {
		t.Errorf("got %v and error %v, want %v", got, err, want)
	}
}

func TestDecodeMerges(t *testing.T) {
	t.Run("the last value of a scalar counts", func(t *testing.T) {
		got, err := wire.DecodeTaskMessage([]byte{0x0a, 1, 'a', 0x28, 1, 0x12, 1, 'p', 0x0a, 1, 'b', 0x28, 2, 0x12, 0})
		want := &wire.TaskMessage{Type: "b", MaxRetry: 2}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("error %v (-want +got):\n%s", err, diff)
		}
	})
	t.Run("maps are merged", func(t *testing.T) {
		got, err := wire.DecodeTaskMessage([]byte{
			0x7a, 6, 0x0a, 1, 'a', 0x12, 1, '1',
			0x0a, 1, 't',
			0x7a, 6, 0x12, 1, '2', 0x0a, 1, 'b', // the value before the key
			0x7a, 9, 0x0a, 1, 'x', 0x0a, 1, 'a', 0x12, 1, '3', // two keys
			0x7a, 0, // neither
		})
		want := &wire.TaskMessage{Type: "t", Headers: map[string]string{"a": "3", "b": "2", "": ""}}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("error %v (-want +got):\n%s", err, diff)
		}
	})
	t.Run("timestamps are merged", func(t *testing.T) {
		got, err := wire.DecodeSchedulerEnqueueEvent([]byte{0x12, 4, 8, 1, 0x10, 1, 0x12, 2, 8, 5})
		want := &wire.SchedulerEnqueueEvent{EnqueuedAt: time.Unix(5, 1)}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("error %v (-want +got):\n%s", err, diff)
		}
	})
}

func TestDecodeSkipsUnknownFields(t *testing.T) {
	const unknown = 100
	var b []byte
	b = protowire.AppendTag(b, unknown, protowire.VarintType)
	b = protowire.AppendVarint(b, 1)
	b = protowire.AppendTag(b, unknown, protowire.BytesType)
	b = protowire.AppendString(b, "\xff")
	b = protowire.AppendTag(b, unknown, protowire.Fixed32Type)
	b = protowire.AppendFixed32(b, 1)
	b = protowire.AppendTag(b, unknown, protowire.Fixed64Type)
	b = protowire.AppendFixed64(b, 1)
	b = protowire.AppendTag(b, unknown, protowire.StartGroupType)
	b = protowire.AppendTag(b, 1, protowire.VarintType) // not field 1 of the message
	b = protowire.AppendVarint(b, 1)
	b = protowire.AppendTag(b, unknown, protowire.EndGroupType)
	for _, k := range kinds {
		want, err := k.decode(nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := k.decode(b)
		if err != nil {
			t.Errorf("%s: %v", k.name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", k.name, diff)
		}
	}
}

func TestDecodeRejects(t *testing.T) {
	tests := []struct {
		name string
		kind any
		in   string
		want string // prefix of the error, after the name of the message
	}{
		{"truncated tag", &wire.TaskMessage{}, "\x80", ""},
		{"field number 0", &wire.TaskMessage{}, "\x00\x00", ""},
		{"field number over 29 bits", &wire.TaskMessage{}, "\x80\x80\x80\x80\x10\x00", "field number"},
		{"wire type 7", &wire.TaskMessage{}, "\x0f", "field 1: "},
		{"truncated varint", &wire.TaskMessage{}, "\x28\x80", "field 5: "},
		{"varint over 64 bits", &wire.TaskMessage{}, "\x28\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", "field 5: "},
		{"truncated bytes", &wire.TaskMessage{}, "\x12\x02a", "field 2: "},
		{"no value", &wire.TaskMessage{}, "\x12", "field 2: "},
		{"truncated unknown field", &wire.TaskMessage{}, "\xa5\x06\x00\x00", "field 100: "},
		{"group without end", &wire.TaskMessage{}, "\xa3\x06", "field 100: "},
		{"end without group", &wire.TaskMessage{}, "\xa4\x06", "field 100: "},
		{"text as varint", &wire.TaskMessage{}, "\x08\x01", "field 1: wire type"},
		{"text as group", &wire.TaskMessage{}, "\x0b\x0c", "field 1: wire type"},
		{"payload as varint", &wire.TaskMessage{}, "\x10\x01", "field 2: wire type"},
		{"number as text", &wire.TaskMessage{}, "\x2a\x01a", "field 5: wire type"},
		{"number as fixed64", &wire.TaskMessage{}, "\x41\x00\x00\x00\x00\x00\x00\x00\x00", "field 8: wire type"},
		{"header as varint", &wire.TaskMessage{}, "\x78\x00", "field 15: wire type"},
		{"truncated header", &wire.TaskMessage{}, "\x7a\x02\x0a\x05", "field 15: field 1: "},
		{"header key as varint", &wire.TaskMessage{}, "\x7a\x02\x08\x01", "field 15: field 1: wire type"},
		{"header value not UTF-8", &wire.TaskMessage{}, "\x7a\x03\x12\x01\xff", "field 15: field 2: text"},
		{"text not UTF-8", &wire.TaskMessage{}, "\x0a\x01\xff", "field 1: text"},
		{"text not UTF-8, then valid", &wire.TaskMessage{}, "\x0a\x01\xff\x0a\x01a", "field 1: text"},
		{"bool as text", &wire.ServerInfo{}, "\x32\x00", "field 6: wire type"},
		{"queue name not UTF-8", &wire.ServerInfo{}, "\x2a\x03\x0a\x01\xff", "field 5: field 1: text"},
		{"queue priority as text", &wire.ServerInfo{}, "\x2a\x02\x12\x00", "field 5: field 2: wire type"},
		{"time as varint", &wire.WorkerInfo{}, "\x40\x00", "field 8: wire type"},
		{"seconds as text", &wire.WorkerInfo{}, "\x42\x02\x0a\x00", "field 8: field 1: wire type"},
		{"option not UTF-8", &wire.SchedulerEntry{}, "\x2a\x01\xff", "field 5: text"},
		{"truncated nanos", &wire.SchedulerEnqueueEvent{}, "\x12\x01\x10", "field 2: field 2: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := kindOf(t, tt.kind)
			got, err := k.decode([]byte(tt.in))
			if err == nil {
				t.Fatalf("decoded to %+v without an error", got)
			}
			if want := "wire: decode " + k.name + ": " + tt.want; !strings.HasPrefix(err.Error(), want) {
				t.Errorf("error %q does not begin with %q", err, want)
			}
		})
	}
}

// A message that is truncated inside a field is rejected.
func TestDecodeRejectsTruncation(t *testing.T) {
	for _, name := range []string{"task_message", "task_message_negative"} {
		b := readGolden(t, name)
		ends := map[int]bool{0: true}
		for i := 0; i < len(b); {
			_, _, n := protowire.ConsumeField(b[i:])
			if n < 0 {
				t.Fatal(protowire.ParseError(n))
			}
			i += n
			ends[i] = true
		}
		for n := range len(b) {
			if _, err := wire.DecodeTaskMessage(b[:n:n]); (err == nil) != ends[n] {
				t.Errorf("%s truncated after %d bytes: error %v", name, n, err)
			}
		}
	}
}
