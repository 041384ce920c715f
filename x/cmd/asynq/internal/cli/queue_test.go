package cli

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

// seedQueues creates three queues with tasks in several states.
func seedQueues(w *world) {
	w.t.Helper()
	for range 3 {
		w.enqueue("email:welcome", `{"user":1}`, asynq.Queue("mail"))
	}
	w.enqueue("email:later", "", asynq.Queue("mail"), asynq.ProcessIn(time.Hour))
	w.enqueue("report", "", asynq.Queue("reports"), asynq.Group("daily"))
	info := w.enqueue("sync", "", asynq.Queue("default"))
	if err := w.inspector.ArchiveTask("default", info.ID); err != nil {
		w.t.Fatal(err)
	}
	if err := w.inspector.PauseQueue("reports"); err != nil {
		w.t.Fatal(err)
	}
}

func TestQueueLs(t *testing.T) {
	w := newWorld(t)
	w.golden("queue_ls_empty", w.run("queue", "ls"))
	seedQueues(w)
	w.golden("queue_ls", w.run("queue", "ls"))
	w.golden("queue_ls_wide", w.run("queue", "ls", "-o", "wide", "--no-headers"))
	w.golden("queue_ls_json", w.run("queue", "ls", "-o", "json", "--filter", "queue=mail"))
	w.golden("queue_ls_ndjson", w.run("queue", "ls", "-o", "ndjson"))
	w.golden("queue_ls_yaml", w.run("queue", "ls", "-o", "yaml", "--filter", "size>=1 queue:r*"))
	w.golden("queue_ls_template", w.run("queue", "ls", "-o", "template={{.queue}}={{.size}}{{if gt .pending 2}} busy{{end}}"))
	w.golden("queue_ls_bad_template", w.run("queue", "ls", "-o", "template={{.nope}}"))
	w.golden("queue_ls_bad_filter", w.run("queue", "ls", "--filter", "colour=red"))
	w.golden("queue_ls_bad_format", w.run("queue", "ls", "-o", "xml"))
}

// queue ls -q prints one name per line, whatever it contains, and only matching names with a
// filter.
func TestQueueLsQuiet(t *testing.T) {
	w := newWorld(t)
	if r := w.run("queue", "ls", "-q"); r != (result{}) {
		t.Errorf("without queues: got %+v", r)
	}
	seedQueues(w)
	w.enqueue("x", "", asynq.Queue("two\nlines"))
	w.enqueue("x", "", asynq.Queue(`"quoted"`))
	w.env["ASYNQ_OUTPUT"] = "json"
	for args, want := range map[string]string{
		"-q":                                 `"\"quoted\""` + "\ndefault\nmail\nreports\n" + `"two\nlines"` + "\n",
		"--quiet --filter pending>2":         "mail\n",
		"--quiet --filter pending>2 -o wide": "mail\n",
	} {
		if r := w.run(append([]string{"queue", "ls"}, strings.Fields(args)...)...); r != (result{out: want}) {
			t.Errorf("%s: got %+v, want %q", args, r, want)
		}
	}
}

func TestQueueLsBroken(t *testing.T) {
	w := newWorld(t)
	seedQueues(w)
	w.breakQueue("mail")
	for _, command := range []string{"queue ls", "queue top --once -i 100ms"} {
		r := w.run(append(strings.Fields(command), "-o", "template={{.queue}}")...)
		if r.out != "default\nreports\n" || r.code != ExitFailed || !strings.Contains(r.err, `queue "mail"`) {
			t.Errorf("%s: got %+v; want the other two queues and an error with the broken one", command, r)
		}
	}
	r := w.run("stats", "-o", "template={{.queues_read}} of {{len .queues}}, {{.tasks.archived}}")
	if r.out != "2 of 3, 1\n" || r.code != ExitFailed || !strings.Contains(r.err, `queue "mail"`) {
		t.Errorf("stats: got %+v; want a partial summary and an error with the broken queue", r)
	}
	// A failure takes precedence over a missing queue, in any order.
	for _, args := range [][]string{{"mail", "none"}, {"none", "mail"}} {
		if r := w.run(append([]string{"queue", "inspect"}, args...)...); r.code != ExitFailed {
			t.Errorf("inspect %v: got %+v; want exit code %d", args, r, ExitFailed)
		}
	}
	r = w.run("queue", "inspect", "mail", "default")
	if !strings.Contains(r.out, "default") || r.code != ExitFailed {
		t.Errorf("inspect: got %+v; want the other queue, and exit code %d", r, ExitFailed)
	}
}

// breakQueue replaces the list of pending tasks with a value of the wrong type.
func (w *world) breakQueue(queue string) {
	w.t.Helper()
	key := w.namespace + ":{" + queue + "}:pending"
	if err := w.redis.Del(w.t.Context(), key).Err(); err != nil {
		w.t.Fatal(err)
	}
	if err := w.redis.Set(w.t.Context(), key, "not a list", 0).Err(); err != nil {
		w.t.Fatal(err)
	}
}

func TestQueueInspect(t *testing.T) {
	w := newWorld(t)
	seedQueues(w)
	w.golden("queue_inspect", w.run("queue", "inspect", "mail", "reports"))
	w.golden("queue_inspect_missing", w.run("queue", "inspect", "none", "reports", "-o", "json"))
}

func TestQueueHistory(t *testing.T) {
	w := newWorld(t)
	w.processTasks("mail", 3, 1)
	w.golden("queue_history", w.run("queue", "history", "mail", "-x", "3"))
	w.golden("queue_history_ndjson", w.run("queue", "history", "mail", "none", "--days", "2", "-o", "ndjson"))
	w.golden("queue_history_too_long", w.run("queue", "history", "mail", "--days", "91"))
}

func TestQueuePauseResume(t *testing.T) {
	w := newWorld(t)
	seedQueues(w)
	w.golden("queue_pause", w.run("queue", "pause", "mail", "none", "reports"))
	if q, err := w.inspector.GetQueueInfo("mail"); err != nil || !q.Paused {
		t.Errorf("queue mail: %+v, %v; want it paused", q, err)
	}
	w.golden("queue_resume", w.run("queue", "unpause", "mail", "default"))
	if q, err := w.inspector.GetQueueInfo("mail"); err != nil || q.Paused {
		t.Errorf("queue mail: %+v, %v; want it running", q, err)
	}
}

func TestQueueRemove(t *testing.T) {
	w := newWorld(t)
	seedQueues(w)
	w.golden("queue_remove_full", w.run("queue", "remove", "mail"))
	w.golden("queue_remove_without_terminal", w.run("queue", "rm", "mail", "--force"))
	w.golden("queue_remove_dry_run", w.run("queue", "delete", "mail", "none", "--force", "--dry-run"))
	w.inTerminal, w.in = true, "n\n"
	w.golden("queue_remove_no", w.run("queue", "remove", "mail", "--force"))
	if names, err := w.inspector.Queues(); err != nil || len(names) != 3 {
		t.Fatalf("queues %v, %v; want all three", names, err)
	}
	w.in = "y\n"
	w.golden("queue_remove_yes", w.run("queue", "remove", "mail", "--force"))
	w.inTerminal, w.in = false, ""
	w.golden("queue_remove_flag", w.run("queue", "remove", "default", "none", "-f", "--yes"))
	if names, err := w.inspector.Queues(); err != nil || len(names) != 1 {
		t.Errorf("queues %v, %v; want one left", names, err)
	}
}

// Several prompts read several lines of one input.
func TestQueueRemovePromptsForEach(t *testing.T) {
	w := newWorld(t)
	seedQueues(w)
	w.inTerminal, w.in = true, "n\ny\n"
	r := w.run("queue", "remove", "mail", "default", "--force")
	if names, err := w.inspector.Queues(); err != nil || strings.Join(names, " ") != "mail reports" || r.code != ExitFailed {
		t.Errorf("queues %v, %v, %+v; want only the second removed", names, err, r)
	}
}

func TestQueueTop(t *testing.T) {
	w := newWorld(t)
	seedQueues(w)
	w.golden("queue_top_once", w.run("queue", "top", "--once", "--interval", "100ms", "-o", "wide"))
	r := w.run("queue", "top", "--once", "--interval", "100ms", "-o", "ndjson", "--filter", "queue=mail")
	if !strings.Contains(r.out, `"processed_per_second":0,`) || strings.Count(r.out, "\n") != 1 || r.code != ExitDone {
		t.Errorf("got %+v; want one line with a rate of 0", r)
	}
}

// The busiest queue is first. Rates use the clock of Redis.
func TestTopRates(t *testing.T) {
	then := time.Now()
	before := &asynq.QueueInfo{Queue: "q", Size: 10, ProcessedTotal: 100, FailedTotal: 5, Timestamp: then}
	row := newTopRow(&asynq.QueueInfo{Queue: "q", Size: 6, ProcessedTotal: 120, FailedTotal: 6, Timestamp: then.Add(2 * time.Second)}, before)
	if *row.Processed != 10 || *row.Failed != 0.5 || *row.Growth != -2 {
		t.Errorf("rates %v, %v, %v; want 10, 0.5, -2", *row.Processed, *row.Failed, *row.Growth)
	}
	for _, now := range []*asynq.QueueInfo{{Timestamp: then.Add(time.Second), FailedTotal: 5}, {Timestamp: then.Add(time.Second), ProcessedTotal: 100}} {
		if row := newTopRow(now, before); row.Processed != nil || row.Failed != nil {
			t.Errorf("rates of a recreated queue: %+v; want none", row)
		}
	}
	if row := newTopRow(before, before); row.Growth != nil {
		t.Errorf("rate over a zero interval: %v", *row.Growth)
	}
}

// A command with --watch draws repeatedly. Its interruption is not an error.
func TestWatch(t *testing.T) {
	w := newWorld(t)
	seedQueues(w)
	ctx, cancel := context.WithCancel(t.Context())
	drawn := newSignalWriter("default", 3, cancel)
	code := Run(ctx, []string{"--uri", redisAddr, "--namespace", w.namespace, "queue", "ls", "--watch=100ms"}, Streams{
		In: strings.NewReader(""), Out: drawn, Err: io.Discard, OutIsTerminal: true, Env: func(string) (string, bool) { return "", false },
	})
	if text := drawn.String(); code != ExitDone || strings.Count(text, "\x1b[H") < 3 || !strings.Contains(text, "\x1b[33mpaused\x1b[0m") {
		t.Errorf("exit code %d, drawn %q; want three tables in color, each over the previous one", code, text)
	}
}

// A frame higher than the terminal is truncated. Each line is cleared to its end.
func TestOverlay(t *testing.T) {
	t.Parallel()
	for height, want := range map[int]string{0: "\x1b[Ha\x1b[K\nb\x1b[K\nc\x1b[K\n\x1b[J", 3: "\x1b[Ha\x1b[K\nb\x1b[K\n\x1b[J", 4: "\x1b[Ha\x1b[K\nb\x1b[K\nc\x1b[K\n\x1b[J"} {
		if got := string(overlay([]byte("a\nb\nc\n"), height)); got != want {
			t.Errorf("height %d: got %q, want %q", height, got, want)
		}
	}
}

// Errors do not end --watch: it draws the available rows and prints the errors.
func TestWatchErrors(t *testing.T) {
	w := newWorld(t)
	seedQueues(w)
	w.breakQueue("mail")
	ctx, cancel := context.WithCancel(t.Context())
	drawn, errs := newSignalWriter("reports\n", 3, cancel), newSignalWriter("", 1, func() {})
	code := Run(ctx, []string{"--uri", redisAddr, "--namespace", w.namespace, "queue", "ls", "--watch=100ms", "-o", "template={{.queue}}"}, Streams{
		In: strings.NewReader(""), Out: drawn, Err: errs, Env: func(string) (string, bool) { return "", false },
	})
	if code != ExitDone || strings.Count(errs.String(), `queue "mail"`) < 2 {
		t.Errorf("exit code %d, errors %q; want the broken queue reported each time", code, errs.String())
	}
}

// Results are in order. After stop, no calls remain in flight.
func TestPrefetch(t *testing.T) {
	t.Parallel()
	names := make([]string, 100)
	for n := range names {
		names[n] = string(rune('a' + n%26))
	}
	var calls atomic.Int64
	get := func(name string) (string, error) { calls.Add(1); return name, nil }
	next, stop := prefetch(names, get)
	var got []string
	for range 5 {
		name, _ := next()
		got = append(got, name)
	}
	stop()
	if n := calls.Load(); !slices.Equal(got, names[:5]) || n > 5+maxConcurrent+1 {
		t.Errorf("got %v after %d calls", got, n)
	}
}

func TestNoColor(t *testing.T) {
	w := newWorld(t)
	seedQueues(w)
	w.outTerminal = true
	if r := w.run("queue", "ls"); !strings.Contains(r.out, "\x1b[") {
		t.Errorf("no color on a terminal: %q", r.out)
	}
	w.env["NO_COLOR"] = "1"
	if r := w.run("queue", "ls"); strings.Contains(r.out, "\x1b[") {
		t.Errorf("color with NO_COLOR: %q", r.out)
	}
}

func TestOutputFromEnvironment(t *testing.T) {
	w := newWorld(t)
	seedQueues(w)
	w.env["ASYNQ_OUTPUT"], w.env["ASYNQ_NO_HEADERS"] = "ndjson", "true"
	if r := w.run("queue", "ls"); !strings.HasPrefix(r.out, `{"queue":"default","memory_usage_bytes":`) || strings.Contains(r.out, `"memory_usage_bytes":0`) {
		t.Errorf("got %+v; want JSON with all fields", r)
	}
	if r := w.run("queue", "ls", "-o", "table"); strings.Contains(r.out, "QUEUE") {
		t.Errorf("got %+v; want a table without headings", r)
	}
	w.env["ASYNQ_NO_HEADERS"] = "perhaps"
	if r := w.run("queue", "ls"); r.code != ExitUsage || !strings.Contains(r.err, "ASYNQ_NO_HEADERS") {
		t.Errorf("got %+v; want an error about the variable", r)
	}
}
