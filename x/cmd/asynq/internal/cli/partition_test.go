package cli

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"github.com/asynq-go/asynq"
)

// seedPartitions returns when a server holds two tasks of customer a and one of b, which are
// paused.
func seedPartitions(w *world) {
	w.t.Helper()
	for id, key := range map[string]string{"1": "a", "2": "a", "keyed": "b"} {
		w.enqueue("hook", "", asynq.Queue("hooks"), asynq.TaskID(id), asynq.PartitionKey(key))
	}
	if r := w.run("partition", "pause", "-q", "hooks", "a", "b"); r.code != ExitDone {
		w.t.Fatal(r)
	}
	s := asynq.NewServer(w.opt, asynq.Config{
		Queues: map[string]int{"hooks": 1}, LogLevel: asynq.FatalLevel,
		QueueConfigs: map[string]asynq.QueueConfig{"hooks": {Partitions: &asynq.PartitionConfig{Concurrency: 1}}},
	})
	if err := s.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil })); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(s.Shutdown)
	for ticker := time.NewTicker(pollEvery); ; <-ticker.C {
		if q, err := w.inspector.GetQueueInfo("hooks"); err == nil && q.Held == 3 {
			return
		}
		if err := w.t.Context().Err(); err != nil {
			w.t.Fatal(err)
		}
	}
}

func TestPartition(t *testing.T) {
	w := newWorld(t)
	seedPartitions(w)
	expect := func(out, err string, code int, args ...string) {
		t.Helper()
		if r := w.run(args...); r.out != out || !strings.Contains(r.err, err) || r.code != code {
			t.Errorf("%q: %+v, want %q, %q and exit code %d", args, r, out, err, code)
		}
	}
	const row = "-o=template={{.key}} {{.held}} {{.active}} {{.paused}} {{.concurrency}} {{.rate}} {{.burst}} {{.weight}}"
	expect("a 2 0 true 0  0 0\nb 1 0 true 0  0 0\n", "", ExitDone, "partition", "ls", row)
	expect("a 2 0 true 0  0 0\n", "", ExitDone, "partition", "ls", "-q", "hooks", "--top", "1", row)
	expect("b 1 0 true 0  0 0\n", "", ExitDone, "partition", "ls", "--top", "1", "--sort", "held", row)
	expect("", "--top must not be negative", ExitUsage, "partition", "ls", "--top", "-1")
	expect("", `"none"`, ExitNotFound, "partition", "ls", "-q", "none")

	set := []string{"partition", "set", "-q", "hooks", "a"}
	expect("", "concurrency 5, rate 100/1m burst 20", ExitDone, append(set, "--concurrency", "5", "--rate", "100/1m", "--burst", "20")...)
	expect("", "weight 2.5", ExitDone, append(set, "--weight", "2.5", "--concurrency", "-1")...)
	expect("a 2 0 true -1 100/1m 20 2.5\n", "", ExitDone, "partition", "inspect", "-q", "hooks", "a", row)
	for _, rate := range []string{"100/1s", "5/10m", "5/1h", "5/10h", "5/1h30m", "5/1m30s", "5/20h10m", "5/100ms"} {
		expect("", "rate "+rate+", weight", ExitDone, append(set, "--rate", rate, "--burst", "0")...)
	}
	expect("", "rate 100/1m burst 20", ExitDone, append(set, "--rate", "100/1m", "--burst", "20")...)
	expect("", "--rate \"x\"", ExitUsage, append(set, "--rate", "x")...)
	expect("", "requires a rate", ExitUsage, "partition", "set", "-q", "hooks", "b", "--burst", "2")
	expect("", "at most 1,000", ExitFailed, append(set, "--concurrency", "1001")...)
	expect("", "", ExitUsage, set...)
	expect("", "", ExitUsage, append(set, "--reset", "--weight", "1")...)
	expect("", "--queue is required", ExitUsage, "partition", "pause", "a")

	if r := w.run("task", "ls", "-s", "scheduled", "-o=template={{.is_held}} {{.partition_key}} {{.next_process_at}}"); r.code != ExitDone ||
		strings.Count(r.out, "true a <no value>\n") != 2 || strings.Count(r.out, "true b <no value>\n") != 1 {
		t.Errorf("%+v", r)
	}
	expect("3 0\n", "", ExitDone, "queue", "ls", "-o=template={{.held}} {{.scheduled}}")
	if r := w.run("task", "inspect", "-q", "hooks", "keyed"); !strings.Contains(r.out, "held by") || !strings.Contains(r.out, "Partition:     b\n") || strings.Contains(r.out, "Next attempt") {
		t.Errorf("%+v", r)
	}
	if r := w.run("task", "ls", "-q", "hooks", "-s", "scheduled"); strings.Count(r.out, " held") != 3 {
		t.Errorf("%+v", r)
	}
	for _, command := range [][]string{{"queue", "ls"}, {"stats"}, {"stats", "-o=wide"}} {
		if r := w.run(command...); !strings.Contains(r.out, "HELD") {
			t.Errorf("%q does not show held tasks: %+v", command, r)
		}
	}
	expect("3 3\n", "", ExitDone, "stats", "-o=template={{.tasks.held}} {{.tasks.total}}")
	if r := w.run("task", "ls", "-q", "hooks"); !strings.Contains(r.out, "keyed  held ") || strings.Contains(r.out, "scheduled") {
		t.Errorf("%+v", r)
	}
	if r := w.run("task", "enqueue", "-q", "other", "-t", "x", "--id", "x", "--partition-key", "c"); r.code != ExitDone {
		t.Errorf("%+v", r)
	}
	if info, err := w.inspector.GetTaskInfo("other", "x"); err != nil || info.PartitionKey != "c" {
		t.Errorf("%+v, %v", info, err)
	}
	w.in = `{"type":"x","id":"y","partition_key":"d"}` + "\n" + `{"type":"x","partition_key":""}`
	if r := w.run("task", "enqueue", "-q", "other", "--batch", "-"); !strings.Contains(r.out, "partition key must not be blank") {
		t.Errorf("a batch: %+v", r)
	}
	if info, err := w.inspector.GetTaskInfo("other", "y"); err != nil || info.PartitionKey != "d" {
		t.Errorf("the task of a batch: %+v, %v", info, err)
	}
	expect("", "partition key must not be blank", ExitFailed, "task", "enqueue", "-t", "x", "--partition-key", " ")
	expect("", "already paused", ExitDone, "partition", "pause", "-q", "hooks", "a")
	expect("", "would delete all waiting tasks", ExitDone, "partition", "rm", "-q", "hooks", "a", "--dry-run")
	expect("", "confirm with --yes", ExitUsage, "partition", "rm", "-q", "hooks", "a")
	expect("", "0 tasks", ExitDone, "partition", "cancel", "-q", "hooks", "a", "--yes")
	expect("", "2 tasks of partition \"a\" of queue \"hooks\" deleted", ExitDone, "partition", "rm", "-q", "hooks", "a", "--yes")
	expect("b 1 0 true 0  0 0\n", "", ExitDone, "partition", "ls", row)
	expect("", "has the settings of the queue", ExitDone, append(set, "--reset")...)
	expect("a 0 0 false 0  0 0\n", "", ExitDone, "partition", "inspect", "-q", "hooks", "a", row)
	expect("", "resumed", ExitDone, "partition", "resume", "-q", "hooks", "b")
}

// A pause that comes while limits are saved remains.
func TestPauseDuringSave(t *testing.T) {
	w, fake := newWorld(t), miniredis.RunT(t)
	opt := asynq.RedisClientOpt{Addr: fake.Addr()}
	client, inspector := asynq.NewClient(opt), asynq.NewInspector(opt)
	t.Cleanup(func() { _, _ = client.Close(), inspector.Close() })
	if _, err := client.Enqueue(asynq.NewTask("hook", nil), asynq.Queue("hooks")); err != nil {
		t.Fatal(err)
	}
	var paused atomic.Bool
	fake.Server().SetPreHook(func(_ *server.Peer, name string, args ...string) bool {
		if strings.EqualFold(name, "evalsha") && len(args) > 2 && args[2] == "asynq:{hooks}:partitions:settings" && paused.CompareAndSwap(false, true) {
			if err := inspector.PausePartition(context.Background(), "hooks", "a"); err != nil {
				t.Error(err)
			}
		}
		return false
	})
	if r := w.raw(t.Context(), "--uri", fake.Addr(), "partition", "set", "-q", "hooks", "a", "--concurrency", "3"); r.code != ExitDone {
		t.Error(r)
	}
	p, err := inspector.GetPartitionInfo(context.Background(), "hooks", "a")
	if err != nil || p.Settings != (asynq.PartitionSettings{Concurrency: 3, Paused: true}) {
		t.Errorf("%+v, %v", p, err)
	}
}
