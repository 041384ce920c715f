package web_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web"
)

// With ReadOnly, all pages and all routes of both APIs refuse changes, and Redis is unchanged.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	redis := newRedis(t)
	client, inspector := asynq.NewClient(redis), asynq.NewInspector(redis)
	defer client.Close()
	defer inspector.Close()
	if _, err := client.Enqueue(asynq.NewTask("a", []byte(`{"n":1}`)), asynq.Queue("mail"), asynq.TaskID("t"), asynq.ProcessIn(time.Hour)); err != nil {
		t.Fatal(err)
	}
	h := web.New(web.Options{RedisConnOpt: redis, ReadOnly: true, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	t.Cleanup(func() { _ = h.Close() })
	refused := 0
	send := func(method, path, kind, body string) {
		t.Helper()
		r := httptest.NewRequest(method, "http://localhost:8080"+path, strings.NewReader(body))
		r.RemoteAddr = "127.0.0.1:5000"
		r.Header.Set("Content-Type", kind)
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "read-only") {
			t.Errorf("%s %s %s: %d %s", method, path, body, w.Code, w.Body)
		}
		refused++
	}

	form := url.Values{
		"queue": {"mail"}, "id": {"t"}, "state": {"scheduled"}, "type": {"b"}, "payload": {`{"n":2}`}, "encoding": {"json"}, "do": {"delete"},
		"kind": {"delete"}, "confirm": {"yes"}, "entry": {"e"}, "group": {"g"},
	}
	for _, path := range []string{"/queue", "/tasks", "/task", "/edit", "/enqueue"} {
		for _, do := range []string{"delete", "run", "archive", "pause", "resume", "reschedule"} {
			switch {
			case path == "/queue" && do != "delete" && do != "pause" && do != "resume", path != "/queue" && (do == "pause" || do == "resume"),
				path == "/tasks" && do == "reschedule":
				continue
			}
			form.Set("do", do)
			form.Set("in", "5m")
			send("POST", path, "application/x-www-form-urlencoded", form.Encode())
		}
	}

	names := strings.NewReplacer("{queue}", "mail", "{id}", "t")
	send("DELETE", "/api/queues/mail", "", "")
	send("POST", "/api/queues/mail:pause", "", "")
	send("POST", "/api/queues/mail:resume", "", "")
	batch := `{"task_ids":["t"]}`
	for list, verbs := range map[string]string{
		"pending": "archive delete", "scheduled": "run archive delete", "retry": "run archive delete", "archived": "run delete",
		"completed": "delete", "active": "cancel", "aggregating": "run archive delete",
	} {
		path := "/api/queues/mail/" + list + "_tasks"
		if list == "aggregating" {
			path = "/api/queues/mail/groups/g/" + list + "_tasks"
		}
		for verb := range strings.FieldsSeq(verbs) {
			method, one := "POST", path+"/t:"+verb
			if verb == "delete" {
				method, one = "DELETE", path+"/t"
			}
			send(method, one, "", "")
			send(method, path+":"+verb+"_all", "", "")
			send("POST", path+":batch_"+verb, "application/json", batch)
		}
	}

	var document struct {
		Paths map[string]map[string]struct {
			RequestBody struct {
				Content map[string]struct{ Example json.RawMessage }
			}
		}
	}
	_, _, body := get(t, h, "/api/v2/openapi.json")
	if err := json.Unmarshal([]byte(body), &document); err != nil {
		t.Fatal(err)
	}
	for path, methods := range document.Paths {
		for method, operation := range methods {
			if method == "get" || strings.HasPrefix(path, "/operations/") || strings.Contains(path, "/operations/{") {
				continue // there is no operation to end
			}
			example := strings.Replace(string(operation.RequestBody.Content["application/json"].Example), `"dry_run":true`, `"dry_run":false`, 1)
			send(strings.ToUpper(method), "/api/v2"+names.Replace(strings.TrimPrefix(path, "/api/v2")), "application/json", example)
		}
	}
	if refused < 40 {
		t.Errorf("only %d changes were tried", refused)
	}
	task, err := inspector.GetTaskInfo("mail", "t")
	if err != nil || task.State != asynq.TaskStateScheduled || string(task.Payload) != `{"n":1}` {
		t.Errorf("the task: %+v, %v", task, err)
	}
	queue, err := inspector.GetQueueInfo("mail")
	if err != nil || queue.Size != 1 || queue.Paused {
		t.Errorf("the queue: %+v, %v", queue, err)
	}
}
