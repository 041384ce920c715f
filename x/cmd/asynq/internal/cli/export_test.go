package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/asynq-go/asynq"
)

// seedExport adds tasks that use the remaining task features.
func seedExport(w *world) {
	w.t.Helper()
	seedTasks(w)
	w.enqueue("unique", "\xff", asynq.TaskID("locked"), asynq.Queue("mail"), asynq.Unique(time.Hour), asynq.Group("g2"))
	w.enqueue("unique", "u", asynq.TaskID("locked later"), asynq.Queue("mail"), asynq.Unique(time.Hour), asynq.ProcessIn(time.Hour),
		asynq.Deadline(time.Now().Add(2*time.Hour)), asynq.Header("<&>", "ü\u2028"))
}

var exportID = regexp.MustCompile(`"id":"[A-Z2-7]{26}"`)

var settledToken = regexp.MustCompile(` ?settled:\S+`)

// keysOf returns the values of all keys that store the tasks of queue mail.
func (w *world) keysOf(ctx context.Context) map[string]string {
	w.t.Helper()
	prefix := w.namespace + ":{mail}:"
	names, err := w.redis.Keys(ctx, prefix+"*").Result()
	if err != nil {
		w.t.Fatal(err)
	}
	held := make(map[string]string)
	for _, key := range names {
		name := strings.TrimPrefix(key, prefix)
		var v any
		switch kind, _, _ := strings.Cut(name, ":"); kind {
		case "t":
			v = w.redis.HGetAll(ctx, key).Val()
		case "pending":
			v = w.redis.LRange(ctx, key, 0, -1).Val()
		case "scheduled", "retry", "archived", "completed", "g":
			v = w.redis.ZRangeWithScores(ctx, key, 0, -1).Val()
		case "groups":
			members := w.redis.SMembers(ctx, key).Val()
			slices.Sort(members)
			v = members
		case "unique":
			v = fmt.Sprint(w.redis.Get(ctx, key).Val(), w.redis.TTL(ctx, key).Val() > 50*time.Minute)
		default:
			continue
		}
		held[name] = settledToken.ReplaceAllString(fmt.Sprintf("%q", fmt.Sprint(v)), "")
	}
	return held
}

// An import recreates the exported keys in Redis exactly.
func TestExportAndImport(t *testing.T) {
	w := newWorld(t)
	seedExport(w)
	ctx := t.Context()
	file := filepath.Join(t.TempDir(), "mail.ndjson")
	if r := w.run("export", "mail", file, "--pause"); r.code != 0 || r.out != "" || !strings.Contains(r.err, "exported 10 tasks") {
		t.Fatalf("export: %+v", r)
	}
	if q, err := w.inspector.GetQueueInfo("mail"); err != nil || q.Paused {
		t.Errorf("after the export: %+v, error %v", q, err)
	}
	want := w.keysOf(ctx)
	if r := w.run("export", "mail", file); r.code != ExitUsage {
		t.Errorf("the file is overwritten: %+v", r)
	}
	if r := w.run("import", file); r.code != ExitFailed || !strings.Contains(r.err, `imported 0 tasks into queue "mail"`) ||
		!strings.Contains(r.err, "task ID conflicts with another task") {
		t.Errorf("import over the queue: %+v", r)
	}
	if diff := cmp.Diff(want, w.keysOf(ctx)); diff != "" {
		t.Errorf("an import into the same queue changed it:\n%s", diff)
	}
	if err := w.inspector.DeleteQueue("mail", true); err != nil {
		t.Fatal(err)
	}
	if r := w.run("import", file, "--dry-run"); r.code != 0 || !strings.Contains(r.err, "would import up to 10 tasks") || len(w.keysOf(ctx)) != 0 {
		t.Errorf("dry run: %+v", r)
	}
	if r := w.run("import", file); r.code != 0 || r.out != "" {
		t.Fatalf("import: %+v", r)
	}
	if diff := cmp.Diff(want, w.keysOf(ctx)); diff != "" {
		t.Errorf("(-exported +imported):\n%s", diff)
	}

	// A deleted task is not imported twice without --again.
	if err := w.inspector.DeleteTask("mail", "p1"); err != nil {
		t.Fatal(err)
	}
	w.golden("import_twice", w.run("import", file))
	if _, err := w.inspector.GetTaskInfo("mail", "p1"); err == nil {
		t.Error("a deleted task was imported again")
	}
	if r := w.run("import", file, "--again"); r.code != ExitFailed || !strings.Contains(r.err, "imported 1 task into") {
		t.Errorf("again: %+v", r)
	}
	if r := w.run("import", file, "--again", "--replace"); r.code != ExitUsage {
		t.Errorf("replacing without --yes: %+v", r)
	}
	if r := w.run("import", file, "--again", "--replace", "--yes"); r.code != 0 || !strings.Contains(r.err, "imported 10 tasks") {
		t.Errorf("replacing: %+v", r)
	}
	r := w.run("doctor", "-q", "mail")
	if r.code != 0 {
		t.Errorf("the doctor finds: %+v", r)
	}
}

// An import that is interrupted and repeated creates each task once, also in another queue.
func TestImportInterrupted(t *testing.T) {
	w := newWorld(t)
	const n = 1100
	for i := range n {
		w.enqueue("x", fmt.Sprint(i), asynq.TaskID(fmt.Sprintf("t%04d", i)), asynq.Queue("many"))
	}
	export := w.run("export", "many")
	lines := strings.SplitAfter(export.out, "\n")
	if export.code != 0 || len(lines) != n+3 {
		t.Fatalf("exported %d lines, exit %d: %s", len(lines), export.code, export.err)
	}
	w.in = strings.Join(lines[:600], "")
	if r := w.run("import", "-q", "copy"); r.code != ExitFailed || !strings.Contains(r.err, "truncated") {
		t.Errorf("truncated export: exit %d, %s", r.code, r.err)
	}
	for _, id := range []string{"t0000", "t0001"} { // as if they had run
		if err := w.inspector.DeleteTask("copy", id); err != nil {
			t.Fatal(err)
		}
	}
	w.in = export.out
	r := w.run("import", "-q", "copy")
	if r.code != 0 || !strings.Contains(r.err, `imported 501 tasks into queue "copy"; 599 tasks skipped because already imported`) {
		t.Errorf("repeated import: exit %d, %s", r.code, r.err)
	}
	q, err := w.inspector.GetQueueInfo("copy")
	if err != nil || q.Pending != n-2 {
		t.Errorf("got %+v, error %v", q, err)
	}
	first, err := w.inspector.ListPendingTasks("copy", asynq.PageSize(2))
	if err != nil || len(first) != 2 || first[0].ID != "t0002" || first[1].ID != "t0003" {
		t.Errorf("the first are %v, error %v", first, err)
	}

	// Existing tasks are reported one by one only up to a limit, which does not affect other
	// errors.
	w.in = strings.Join(lines[:n+1], "") + "?\n" + lines[n+1]
	r = w.run("import", "-q", "copy", "--again")
	if strings.Count(r.err, "asynq: line ") != 21 || !strings.Contains(r.err, "\nasynq: line 1102: ") || r.code != ExitFailed ||
		!strings.Contains(r.err, "\nasynq: … and 1,078 more: task ID conflicts (see --replace)\n") {
		t.Errorf("existing tasks: exit %d, %s", r.code, r.err)
	}
	for number, want := range map[int]string{7: "7", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := grouped(number); got != want {
			t.Errorf("grouped(%d) is %q, want %q", number, got, want)
		}
	}
}

func TestImportBadFiles(t *testing.T) {
	w := newWorld(t)
	head := `{"asynq_export":{"version":1,"id":"X","queue":"mail","paused":true,"exported_at":"2026-01-01T00:00:00Z"}}` + "\n"
	for name, in := range map[string]string{
		"import_empty":   "",
		"import_foreign": `{"type":"x"}` + "\n",
		"import_newer":   strings.Replace(head, `"version":1`, `"version":2`, 1),
		"import_lines": head + `{"n":1,"id":"a","type":"x","state":"pending","max_retry":1}
{"n":2,"id":"b","type":"x","state":"done","max_retry":1}
{"n":3,"id":"c","type":"x","state":"pending","payload_base64":"?"}
{"n":4,"id":"d","type":"x","state":"aggregating"}
{"n":0,"id":"e","type":"x","state":"pending"}
{"n":6,"id":"f","type":"x","state":"active"}
{"n":7,"id":"g","type":"x","state":"pending","colour":"red"}
not JSON
{"asynq_export_end":{"tasks":8}}
`,
		"import_two": head + head,
	} {
		w := *w
		w.namespace += name
		w.opt = asynq.WithNamespace(asynq.SharedRedisClient(w.redis), w.namespace)
		w.in = in
		w.golden(name, w.run("import"))
	}
}

func TestExportFormat(t *testing.T) {
	w := newWorld(t)
	seedExport(w)
	r := w.run("export", "mail", "--filter", "id:done OR id:binary")
	w.golden("export", result{out: exportID.ReplaceAllString(r.out, `"id":"<export>"`), err: r.err, code: r.code})
	for line := range strings.Lines(r.out) {
		if !json.Valid([]byte(line)) {
			t.Errorf("no JSON: %s", line)
		}
	}
	w.golden("export_nowhere", w.run("export", "nowhere"))
	w.golden("export_bad_state", w.run("export", "mail", "-s", "done"))
	if _, err := os.Stat("nowhere"); err == nil {
		t.Error("a file was created")
	}
}
