package cli

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/flow"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/failures"
	"github.com/asynq-go/asynq/x/cmd/asynq/internal/out"
)

// hostileText contains all kinds of control characters: escape sequences in 7 and 8 bits, bidi and
// format characters, line and paragraph separators, line breaks, and noncharacters. A line that
// starts with fakeLine was injected.
const (
	fakeLine    = "FAKE"
	hostileText = "\x1b]0;title\a\x1b[2J\u009b31m\u0085\u202egnp\u2066\u2028" + fakeLine + "\u2029" + fakeLine + "\ufeff\ufffe\uffff\x7f\r" + fakeLine + "\n" + fakeLine
)

// csv quotes a value of a flag that takes a comma-separated list.
func csv(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

// seedHostile creates tasks with hostile texts in all fields, and returns the queue and the IDs by
// state.
func seedHostile(w *world) (queue string, ids map[asynq.TaskState]string) {
	w.t.Helper()
	queue = "q" + hostileText
	ids = map[asynq.TaskState]string{}
	add := func(state asynq.TaskState, opts ...asynq.Option) {
		id := state.String() + hostileText
		ids[state] = id
		w.enqueue("t"+hostileText, hostileText, append(opts, asynq.Queue(queue), asynq.TaskID(id), asynq.Header("h"+hostileText, hostileText))...)
	}
	add(asynq.TaskStatePending)
	add(asynq.TaskStateScheduled, asynq.ProcessIn(time.Hour))
	add(asynq.TaskStateAggregating, asynq.Group("g"+hostileText))
	add(asynq.TaskStateArchived)
	if err := w.inspector.ArchiveTask(queue, ids[asynq.TaskStateArchived]); err != nil {
		w.t.Fatal(err)
	}
	return queue, ids
}

// Names and texts of tasks can neither control the terminal nor inject lines in the messages,
// tables and other output formats of any command.
func TestHostileNames(t *testing.T) {
	w := newWorld(t)
	w.env["NO_COLOR"] = "1"
	w.env["EDITOR"] = "cat"
	queue, ids := seedHostile(w)
	dir := t.TempDir()
	file, batch := filepath.Join(dir, "export.ndjson"), filepath.Join(dir, "batch.ndjson")
	if err := os.WriteFile(batch, []byte(`{"type":"x","id":"\u001b[2J\nFAKE","queue":"\u001b[2J\nFAKE"}`+"\n"+`{"\u001b[2J\u0085":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	pending, scheduled := ids[asynq.TaskStatePending], ids[asynq.TaskStateScheduled]
	unknown := "unknown" + hostileText
	entry := w.scheduledHostile()
	q := csv(queue)
	database, db := newOutboxDB(t)
	addFailedRow(t, db, "row"+hostileText, "t"+hostileText, "error"+hostileText)
	kind := failures.ID(asynq.ErrorKind("error" + hostileText))
	blocked := w.hostileFlow(queue)
	failed := &asynq.TaskRecord{
		ID: "failed" + hostileText, Type: "t" + hostileText, State: asynq.TaskStateRetry, LastErr: "error" + hostileText, LastFailedAt: time.Now(),
		At: time.Now().Add(time.Hour), MaxRetry: 5,
	}
	if errs, err := w.inspector.ImportTasks(t.Context(), queue, asynq.ImportOptions{IdempotencyKey: "failed"}, []*asynq.TaskRecord{failed}); errors.Join(append(errs, err)...) != nil {
		t.Fatal(errs, err)
	}
	ran := map[string]bool{}
	for _, args := range [][]string{
		{"stats"}, {"stats", "--json"}, {"stats", "types"}, {"stats", "types", "-q", q, "-o", "wide"}, {"stats", "types", "-o", "json"},
		{"stats", "types", "-q", csv(unknown)}, {"stats", "types", "--since", hostileText}, {"stats", "history", "-q", q}, {"stats", "history", "-q", csv(unknown)},
		{"stats", "history", "-t", "t" + hostileText}, {"stats", "history", "-q", q, "-t", "t" + hostileText, "-o", "wide"}, {"stats", hostileText},
		{"queue", "ls"}, {"queue", "ls", "-o", "wide"}, {"queue", "ls", "-o", "json"}, {"queue", "ls", "-o", "yaml"}, {"queue", "ls", "-o", "ndjson"},
		{"queue", "ls", "-q"}, {"queue", "ls", "-q", "--filter", "size>0"}, {"queue", "ls", "-o", "template={{.queue}}"},
		{"queue", "ls", "--filter", "x" + hostileText}, {"queue", "ls", hostileText}, {"queue", hostileText}, {"queue", "ls", "-o", hostileText},
		{"queue", "inspect", queue, unknown}, {"queue", "history", queue, unknown}, {"queue", "top", "--once", "-i", "100ms"},
		{"queue", "pause", queue, unknown}, {"queue", "pause", queue}, {"queue", "resume", queue, unknown}, {"queue", "resume", queue},
		{"queue", "remove", queue, unknown}, {"queue", "remove", "--force", "--dry-run", queue}, {"queue", "remove", "--force", queue},
		{"group", "ls"}, {"group", "ls", "-q", q}, {"group", "ls", "-q", csv(unknown)},
		{"partition", "ls", "-q", q}, {"partition", "ls", "-q", csv(unknown)}, {"partition", "inspect", "-q", queue, "p" + hostileText},
		{"partition", "inspect", "-q", unknown, "p" + hostileText}, {"partition", "set", "-q", queue, "p" + hostileText, "--weight", "2"},
		{"partition", "set", "-q", queue, "p" + hostileText, "--rate", hostileText}, {"partition", "pause", "-q", queue, "p" + hostileText},
		{"partition", "resume", "-q", queue, "p" + hostileText}, {"partition", "cancel", "-q", queue, "p" + hostileText, "--dry-run"},
		{"partition", "remove", "-q", queue, "p" + hostileText, "--dry-run"},
		{"flow", "ls"}, {"flow", "ls", "-o", "json"}, {"flow", "ls", "--filter", "x" + hostileText}, {"flow", "ls", "--sort", hostileText},
		{"flow", "inspect", blocked, unknown}, {"flow", "inspect", blocked, "-o", "wide"}, {"flow", "inspect", blocked, "-o", "yaml"},
		{"flow", "cancel", blocked, unknown}, {"flow", "cancel", "--dry-run", blocked}, {"flow", "retry", blocked, unknown, "--yes"},
		{"flow", "skip", blocked, unknown}, {"flow", "skip", blocked, "-y", "n" + flowText}, {"flow", "skip", unknown, "n"},
		{"task", "ls"}, {"task", "ls", "-q", q, "-s", "scheduled"}, {"task", "ls", "-q", q, "-s", "archived", "-o", "wide"}, {"task", "ls", "-o", "json"},
		{"task", "ls", "-o", "yaml"}, {"task", "ls", "-o", "template={{.id}} {{.payload}} {{json .headers}}"}, {"task", "ls", "-q", csv(unknown)},
		{"task", "ls", "-s", csv(hostileText)}, {"task", "ls", "--filter", "type:t*"},
		{"task", "inspect", "-q", queue, pending, scheduled, ids[asynq.TaskStateArchived], unknown}, {"task", "inspect", "-q", unknown, pending},
		{"task", "inspect", "-q", queue, pending, "--payload-format", "text"}, {"task", "inspect", "-q", queue, pending, "--payload-format", "json"},
		{"task", "inspect", "-q", queue, pending, "--raw"}, {"task", "inspect", "-q", queue, pending, "-o", "json"},
		{"task", "enqueue", "-t", "x", "-q", queue, "--id", "new" + hostileText}, {"task", "enqueue", "-t", "x", "-q", queue, "--id", "new" + hostileText},
		{"task", "enqueue", "--batch", batch}, {"task", "enqueue", "--batch", batch, "-o", "json"},
		{"task", "wait", "-q", queue, ids[asynq.TaskStateArchived]}, {"task", "wait", "-q", queue, pending, "--timeout", "1ms"}, {"task", "wait", "-q", queue, unknown},
		{"task", "cancel", pending}, {"task", "cancel", "-q", queue, pending}, {"task", "cancel", "-q", queue, unknown},
		{"task", "reschedule", "-q", queue, "--process-in", "2h", scheduled, pending, unknown}, {"task", "update-payload", "-q", queue, "-l", "x", scheduled, pending, unknown},
		{"task", "update", "-q", queue, "-l", "x", scheduled, unknown}, {"task", "update", "-q", queue, "--to-queue", hostileText, unknown},
		{"task", "run", "-q", queue, scheduled, pending, unknown}, {"task", "archive", "-q", queue, scheduled, scheduled, unknown},
		{"task", "delete", "-q", queue, scheduled, unknown},
		{"task", "inspect", pending}, {"task", "inspect", unknown}, {"task", "inspect", "pend"}, {"task", "delete", "pend"}, {"task", "ls", "--ids"},
		{"task", "ls", "-s", "active"}, {"task", "ls", "-o", "csv"}, {"queue", "ls", "-o", "csv"}, {"queue", "ls", "--sort", hostileText},
		{"task", "edit", "-q", queue, pending, unknown}, {"task", "move", "-q", queue, pending, "--to", "to" + hostileText}, {"task", "move", unknown, "--to", "x"},
		{"task", "copy", pending, unknown}, {"task", "tail", "--for", "1ms", "--interval", "100ms"}, {"task", "tail", "-q", q, "--interval", "1ms"},
		{"task", "archiveall", "-q", q, "-s", "pending", "--dry-run"}, {"task", "archiveall", "-q", q, "-s", "pending"},
		{"task", "runall", "-q", q, "-s", "aggregating", "-g", "g" + hostileText, "--dry-run"}, {"task", "runall", "-q", csv(unknown), "-s", "archived"},
		{"task", "deleteall", "-q", q, "-s", "pending", "--dry-run"}, {"task", "deleteall", "-q", q, "-s", "pending", "--yes"},
		{"errors"}, {"errors", "-o", "wide"}, {"errors", "-q", csv(unknown)}, {"errors", hostileText}, {"errors", "--filter", "x" + hostileText},
		{"errors", "inspect", kind, unknown}, {"errors", "inspect", kind, "-o", "yaml"}, {"errors", "run", kind, "--dry-run"}, {"errors", "run", unknown, "--yes"},
		{"errors", "archive", kind, "--dry-run"}, {"errors", "delete", kind, "--dry-run"}, {"errors", "delete", kind},
		{"limit", "ls"}, {"limit", "ls", "-o", "yaml"}, {"limit", "ls", "--sort", hostileText}, {"lock", "ls"}, {"lock", "ls", "-q", csv(unknown)},
		{"lock", "ls", "-o", "json"}, {"lock", "ls", "-s", csv(hostileText)},
		{"server", "ls"}, {"server", "ls", "-o", "json"}, {"server", "quiet", unknown, "--yes"}, {"server", "stop", unknown, "--yes"},
		{"server", "pause-queue", unknown, queue, "--yes"}, {"server", "resume-queue", unknown, queue, "--yes"}, {"server", "set-concurrency", unknown, "x"},
		{"cron", "pause", unknown, entry, "--yes"}, {"cron", "resume", entry, unknown},
		{"cron", "ls"}, {"cron", "ls", "-o", "yaml"}, {"cron", "run", "--dry-run", entry, unknown}, {"cron", "run", entry, unknown}, {"cron", "history", entry, unknown},
		{"status"}, {"status", "-o", "json"}, {"status", "--settings", hostileText}, {"status", "mute", "x" + hostileText, "--for", "1h", "--note", hostileText},
		{"status", "--muted"}, {"status", "unmute", "x" + hostileText, unknown},
		{"doctor"}, {"doctor", "-q", csv(unknown)}, {"doctor", "-o", "json"},
		{"export", queue}, {"export", queue, file}, {"export", queue, file}, {"export", queue, file, "--force", "--pause"}, {"export", unknown},
		{"import", file}, {"import", file, "--queue", "copy" + hostileText}, {"import", file, "--replace", "--dry-run"}, {"import", batch},
		{"context", "ls"}, {"context", "show"}, {"context", "use", hostileText},
		{"context", "add", hostileText}, {"context", "test", hostileText}, {"--context-confirm", hostileText, "queue", "ls"}, {"--context", hostileText, "queue", "ls"},
		{"outbox", "stats", "-d", database}, {"outbox", "stats", "-d", hostileText}, {"outbox", "schema", "--dialect", hostileText},
		{"outbox", "failed", "-d", database}, {"outbox", "failed", "-d", database, "-o", "wide"}, {"outbox", "failed", "-d", database, "-o", "json"},
		{"outbox", "retry", "-d", database, "x" + hostileText, "--yes"}, {"outbox", "discard", "-d", database, "row" + hostileText, "--dry-run"},
		{"outbox", "relay", "-d", "sqlite:" + hostileText}, {"outbox", "relay", "-d", database, "--table-prefix", hostileText},
		{"probe", hostileText}, {"probe", "http://" + hostileText}, {"probe", "http://127.0.0.1:1/" + hostileText},
		{hostileText}, {"help", hostileText}, {"queue", "ls", "--" + hostileText}, {"queue", "ls", "--watch=" + hostileText},
	} {
		for _, terminal := range []bool{true, false} {
			w.outTerminal = terminal
			w.inTerminal = terminal
			full := append([]string{"--uri", redisAddr, "--namespace", w.namespace}, args...)
			if args[0] == "export" || args[0] == "queue" && args[1] == "remove" {
				full = slices.DeleteFunc(full, func(s string) bool { return !terminal && s == "--force" })
			}
			r := w.raw(t.Context(), full...)
			checkHostile(t, args, "stderr", r.err, true)
			if terminal || !strings.Contains(strings.Join(args, " "), "template=") && !slices.Contains(args, "--raw") {
				checkHostile(t, args, "stdout", r.out, !slices.ContainsFunc(args, func(s string) bool { return strings.HasPrefix(s, "template=") || s == "csv" }))
			}
			if r.code == ExitDone && r.out == "" && r.err == "" {
				t.Errorf("%q: no output", args)
			}
		}
		words := args
		for len(words) > 0 {
			ran[strings.Join(words, " ")] = true
			words = words[:len(words)-1]
		}
	}
	notShown := []string{ // without task names in their output, or with separate tests
		"exporter", "service", "service check", "service init", "dash", "web", "dev", "version", "man", "help",
		"completion", "completion bash", "completion zsh", "completion fish", "completion powershell",
	}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		name := strings.TrimPrefix(cmd.CommandPath(), "asynq ")
		if !cmd.HasSubCommands() && !ran[name] && !slices.Contains(notShown, name) {
			t.Errorf("no hostile name was passed to %q", name)
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(newRoot(&app{Streams: Streams{In: strings.NewReader("")}}))
}

func checkHostile(t *testing.T, args []string, where, text string, lines bool) {
	t.Helper()
	for _, r := range text {
		if r != '\n' && out.Unsafe(r) {
			t.Errorf("%q: %s contains %q: %.300q", args, where, r, text)
			return
		}
	}
	for line := range strings.Lines(text) {
		if lines && strings.HasPrefix(line, fakeLine) {
			t.Errorf("%q: %s contains an injected line: %.300q", args, where, text)
			return
		}
	}
}

// flowText is hostileText without the characters that names of flows and nodes must not have.
var flowText = strings.Map(func(r rune) rune {
	if unicode.IsControl(r) {
		return -1
	}
	return r
}, hostileText)

// hostileFlow starts a flow with hostile names, whose first task was archived, and returns its ID.
func (w *world) hostileFlow(queue string) string {
	w.t.Helper()
	id, in := "f"+flowText, asynq.Queue(queue)
	f := flow.New(id)
	first := f.Add("n"+flowText, asynq.NewTask("t"+hostileText, nil), in)
	f.Add("after"+flowText, asynq.NewTask("t"+hostileText, nil), in).After(first)
	info, err := flow.Start(w.t.Context(), w.client, f)
	if err == nil {
		err = w.inspector.ArchiveTask(queue, info.Nodes[0].TaskIDs[0])
	}
	if err == nil {
		_, err = flow.Inspect(w.inspector).Advance(w.t.Context(), id)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

// scheduledHostile registers a periodic task with hostile texts, and returns its entry ID.
func (w *world) scheduledHostile() string {
	w.t.Helper()
	s := asynq.NewScheduler(w.opt, &asynq.SchedulerOpts{LogLevel: asynq.FatalLevel})
	id, err := s.Register("@every 1h", asynq.NewTask("t"+hostileText, []byte(hostileText)), asynq.Queue("cron"+hostileText), asynq.TaskID("tick"+hostileText))
	if err != nil {
		w.t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(s.Shutdown)
	for ticker := time.NewTicker(pollEvery); ; <-ticker.C {
		if entries, err := w.inspector.SchedulerEntries(); err == nil && len(entries) == 1 {
			return id
		}
		if err := w.t.Context().Err(); err != nil {
			w.t.Fatal(err)
		}
	}
}

// --raw writes a payload to a terminal only if it is plain text, and writes it unmodified
// elsewhere.
func TestInspectRaw(t *testing.T) {
	w := newWorld(t)
	for id, payload := range map[string]string{"text": "caf\u00e9\n\tdone", "control": "\x1b[2J", "bidi": "a\u202eb", "bytes": "a\xffb"} {
		w.enqueue("x", payload, asynq.TaskID(id))
		w.outTerminal = false
		if r := w.run("task", "inspect", "--raw", id); r.out != payload || r.code != ExitDone {
			t.Errorf("%s: got %+v; want the payload %q", id, r, payload)
		}
		w.outTerminal = true
		r := w.run("task", "inspect", "--raw", id)
		if id == "text" && r.out != payload || id != "text" && (r.out != "" || r.code != ExitUsage || !strings.Contains(r.err, "--raw > FILE")) {
			t.Errorf("%s on a terminal: got %+v", id, r)
		}
	}
}
