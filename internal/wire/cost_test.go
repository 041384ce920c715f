package wire_test

import (
	"testing"

	"github.com/asynq-go/asynq/internal/wire"
)

// The allocations that the doc comments promise. The throughput depends on them.
func TestAllocations(t *testing.T) {
	plain, rich := sampleTask(), sampleTask()
	plain.Headers = nil
	encoded, err := plain.Encode()
	if err != nil {
		t.Fatal(err)
	}
	attempt := wire.Attempt{Number: 3, Started: 1_700_000_000_000, Ended: 1_700_000_000_001, Kind: wire.AttemptFailed, Server: "host:1", Err: "refused"}
	tests := []struct {
		name string
		want float64
		f    func() error
	}{
		{"Encode", 1, func() error { _, err := rich.Encode(); return err }},
		{"Attempt", 1, func() error { attempt.Encode(); return nil }},
		{"Decode", 2, func() error { _, err := wire.DecodeTaskMessage(encoded); return err }},
	}
	for _, tt := range tests {
		got := testing.AllocsPerRun(100, func() {
			if err := tt.f(); err != nil {
				t.Error(err)
			}
		})
		if got != tt.want {
			t.Errorf("%s: %v allocations, want %v", tt.name, got, tt.want)
		}
	}
}

func BenchmarkEncodeTaskMessage(b *testing.B) {
	forSamples(b, func(b *testing.B, msg *wire.TaskMessage) {
		for b.Loop() {
			if _, err := msg.Encode(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkDecodeTaskMessage(b *testing.B) {
	forSamples(b, func(b *testing.B, msg *wire.TaskMessage) {
		encoded, err := msg.Encode()
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if _, err := wire.DecodeTaskMessage(encoded); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// forSamples runs a benchmark with and without headers, which dominate the cost.
func forSamples(b *testing.B, f func(*testing.B, *wire.TaskMessage)) {
	b.Helper()
	plain := sampleTask()
	plain.Headers = nil
	b.Run("plain", func(b *testing.B) { b.ReportAllocs(); f(b, plain) })
	b.Run("headers", func(b *testing.B) { b.ReportAllocs(); f(b, sampleTask()) })
}

// sampleTask returns a typical task.
func sampleTask() *wire.TaskMessage {
	return &wire.TaskMessage{
		Type: "email:welcome", Payload: []byte(`{"user_id":42,"template":"welcome"}`),
		ID: "4b0f1c1e-6f6c-4c36-9c1d-2f6a2f0f2f10", Queue: "default", MaxRetry: 25, Retried: 1, LastErr: "connection refused",
		Timeout: 1800, UniqueKey: "asynq:{default}:unique:email:welcome:d41d8cd98f00b204e9800998ecf8427e",
		LastFailedAt: 1700000000, Retention: 3600, Headers: map[string]string{"trace": "00-4bf92f35", "tenant": "a"},
	}
}
