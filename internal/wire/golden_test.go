package wire_test

import (
	"bytes"
	"encoding/hex"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/asynq-go/asynq/internal/wire"
)

// The bytes in testdata are written by hand from the protobuf specification. They must never
// change: other processes have written them to Redis.
func TestGolden(t *testing.T) {
	tests := map[string]any{
		"task_message": &wire.TaskMessage{
			Type: "email:send", Payload: []byte(`{"id":7}`), ID: "t-1", Queue: "low", MaxRetry: 25, Retried: 3, LastErr: "é",
			Timeout: 1800, Deadline: 1700000000, UniqueKey: "asynq:{low}:uniqu", LastFailedAt: 1, Retention: 3600,
			CompletedAt: 1700000001, Group: "g", Headers: map[string]string{"b": "2", "a": ""},
		},
		"task_message_empty":    &wire.TaskMessage{},
		"task_message_negative": &wire.TaskMessage{MaxRetry: -1, Retried: math.MinInt32, Timeout: -2},
		"server_info": &wire.ServerInfo{
			Host: "h1", PID: 300, ServerID: "s1", Concurrency: 10, Queues: map[string]int{"low": 3, "demo": 0},
			StrictPriority: true, Status: "active", StartTime: time.Unix(1700000000, 400000), ActiveWorkerCount: 2,
		},
		"worker_info": &wire.WorkerInfo{
			Host: "h1", PID: 1, ServerID: "s1", TaskID: "t1", TaskType: "a", Payload: []byte{0, 0xff}, Queue: "low",
			StartTime: time.Unix(1700000000, 0),
		},
		"scheduler_entry": &wire.SchedulerEntry{
			ID: "e1", Spec: "@every 1m", TaskType: "a", Payload: []byte("p"), EnqueueOptions: []string{`Queue("low")`, ""},
			Next: time.Unix(60, 0),
		},
		"scheduler_enqueue_event": &wire.SchedulerEnqueueEvent{TaskID: "t1", EnqueuedAt: time.Unix(0, 0)},
	}
	files, err := filepath.Glob("testdata/*.hex")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(tests) {
		t.Errorf("%d files in testdata for %d tests", len(files), len(tests))
	}
	for name, msg := range tests {
		t.Run(name, func(t *testing.T) {
			want := readGolden(t, name)
			k := kindOf(t, msg)
			got, err := k.encode(msg)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("encoded:\n got %x\nwant %x", got, want)
			}
			decoded, err := k.decode(want)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(msg, decoded); diff != "" {
				t.Errorf("decoded (-want +got):\n%s", diff)
			}
		})
	}
}

// readGolden reads testdata/name.hex: bytes in hex, separated by optional spaces, with comments
// after #.
func readGolden(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".hex"))
	if err != nil {
		t.Fatal(err)
	}
	var digits strings.Builder
	for line := range strings.Lines(string(text)) {
		code, _, _ := strings.Cut(line, "#")
		for field := range strings.FieldsSeq(code) {
			digits.WriteString(field)
		}
	}
	b, err := hex.DecodeString(digits.String())
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return b
}
