package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

// seedQueues makes three queues with tasks in several states.
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
	w.golden("queue_ls_yaml", w.run("queue", "ls", "-o", "yaml", "--filter", "size>=1 queue=r*"))
	w.golden("queue_ls_template", w.run("queue", "ls", "-o", "template={{.queue}}={{.size}}{{if gt .pending 2}} busy{{end}}"))
	w.golden("queue_ls_bad_filter", w.run("queue", "ls", "--filter", "colour=red"))
	w.golden("queue_ls_bad_format", w.run("queue", "ls", "-o", "xml"))
}

func TestQueueLsBroken(t *testing.T) {
	w := newWorld(t)
	seedQueues(w)
	key := w.namespace + ":{mail}:pending"
	if err := w.redis.Del(t.Context(), key).Err(); err != nil {
		t.Fatal(err)
	}
	if err := w.redis.Set(t.Context(), key, "not a list", 0).Err(); err != nil {
		t.Fatal(err)
	}
	r := w.run("queue", "ls", "-o", "template={{.queue}}")
	if r.out != "default\nreports\n" || r.code != ExitFailed || !strings.Contains(r.err, `queue "mail"`) {
		t.Errorf("got %+v; want the other two queues, and an error that names the broken one", r)
	}
}
