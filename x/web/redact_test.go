package web_test

import (
	"context"
	"encoding/json"
	"errors"
	"html"
	"io"
	"log/slog"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/web"
)

// hidden must not be visible anywhere: verbatim, in base64, or in a dump. It starts at an offset
// that is a multiple of three.
const hidden = `{"k":"secret!"}`

var hiddenForms = []string{"secret", "c2VjcmV0", "736563726574", "73 65 63 72 65 74"}

// newRedacted returns a Handler with a task in each state, a worker and a scheduler entry, all of
// which contain hidden.
func newRedacted(t *testing.T) *web.Handler {
	t.Helper()
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	logger := asynq.NewSlogLogger(quiet)
	redis := newRedis(t)
	client := asynq.NewClient(redis)
	t.Cleanup(func() { _ = client.Close() })
	for id, opts := range map[string][]asynq.Option{
		"pending": {asynq.Queue("idle")}, "scheduled": {asynq.ProcessIn(time.Hour)}, "aggregating": {asynq.Group("g")}, "active": {},
		"retry": {}, "archived": {asynq.MaxRetry(0)}, "completed": {asynq.Retention(time.Hour)},
	} {
		if _, err := client.Enqueue(asynq.NewTask("kind:"+id, []byte(hidden)), append(opts, asynq.TaskID(id))...); err != nil {
			t.Fatal(err)
		}
	}
	end := make(chan struct{})
	server := asynq.NewServer(redis, asynq.Config{
		Concurrency: 5, Queues: map[string]int{"default": 1}, Logger: logger,
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Hour },
	})
	err := server.Start(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		switch task.Type() {
		case "kind:active":
			<-end
			return nil
		case "kind:completed":
			_, err := task.ResultWriter().Write([]byte(hidden))
			return err
		}
		return errors.New("no such row")
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { close(end); server.Shutdown() })
	scheduler := asynq.NewScheduler(redis, &asynq.SchedulerOpts{Logger: logger})
	if _, err := scheduler.Register("@yearly", asynq.NewTask("kind:yearly", []byte(hidden)), asynq.Queue("years")); err != nil {
		t.Fatal(err)
	}
	if err := scheduler.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(scheduler.Shutdown)
	h := web.New(web.Options{RedisConnOpt: redis, Anonymous: web.Admin, Logger: quiet, Redact: func(queue, _ string, data []byte) []byte {
		if queue == "" {
			t.Error("asked without a queue")
		}
		return []byte(strings.ReplaceAll(string(data), "secret", "***"))
	}})
	t.Cleanup(func() { _ = h.Close() })

	// The setup is complete when its own list shows it.
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(time.Minute)
	for path, want := range map[string]string{
		"/api/queues/default/active_tasks": `"active"`, "/api/queues/default/retry_tasks": `"retry"`, "/api/queues/default/archived_tasks": `"archived"`,
		"/api/queues/default/completed_tasks": "***", "/api/scheduler_entries": "***", "/api/servers": "***",
	} {
		for {
			_, _, body := get(t, h, path)
			if strings.Contains(body, want) {
				break
			}
			select {
			case <-tick.C:
			case <-late:
				t.Fatalf("%s: %s", path, body)
			}
		}
	}
	return h
}

// routesOf returns the routes in a source file.
func routesOf(t *testing.T, file, pattern string) (routes []string) {
	t.Helper()
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(source), -1) {
		routes = append(routes, m[1])
	}
	if len(routes) < 6 {
		t.Fatalf("%s has only %q", file, routes)
	}
	return routes
}

var redactedStates = []string{"pending", "scheduled", "aggregating", "active", "retry", "archived", "completed"}

// addresses returns the URLs of all pages and of all routes of both APIs, for all tasks, with all
// parameters.
func addresses(t *testing.T, h *web.Handler) (all []string) {
	t.Helper()
	var first, second []string
	for _, path := range routesOf(t, "internal/apiv1/routes.go", `MethodGet, "([^"]+)"`) {
		first = append(first, "/api"+path)
	}
	for _, name := range redactedStates {
		first = append(first, "/api/queues/{queue}/"+name+"_tasks", "/api/queues/{queue}/groups/g/"+name+"_tasks")
	}
	_, _, body := get(t, h, "/api/v2/openapi.json")
	var document struct {
		Paths map[string]map[string]any
	}
	if err := json.Unmarshal([]byte(body), &document); err != nil {
		t.Fatal(err)
	}
	for path, methods := range document.Paths {
		if methods["get"] == nil {
			continue
		}
		path = "/api/v2" + strings.TrimPrefix(path, "/api/v2")
		second = append(second, path)
		if strings.Contains(path, "/tasks") {
			second = append(second, path+"?payload=base64", path+"?payload=text", path+"?payload_limit=12")
		}
	}
	pages := []string{"/series", "/download"} // without the event stream, which does not end
	for _, path := range routesOf(t, "internal/ui/ui.go", `"(/[a-z{$}]*)": +u\.[a-z]`) {
		pages = append(pages, strings.TrimSuffix(path, "{$}"))
	}
	for _, state := range redactedStates {
		queue := "default"
		if state == "pending" {
			queue = "idle"
		}
		for _, path := range append(first, second...) {
			all = append(all, strings.NewReplacer("{queue}", queue, "{id}", state, "{entry}", "x").Replace(path))
		}
		for _, path := range pages {
			for _, view := range []string{"as=hex", "as=raw", "as=text&of=result", "of=payload", "from=" + state} {
				all = append(all, path+"?"+view+"&"+url.Values{"queue": {queue}, "state": {state}, "id": {state}, "type": {"kind:" + state}}.Encode())
			}
		}
	}
	return all
}

func TestWhatIsRedactedIsToldNowhere(t *testing.T) {
	t.Parallel()
	h := newRedacted(t)
	shown, told := 0, map[string]bool{}
	for _, address := range addresses(t, h) {
		if told[address] {
			continue
		}
		told[address] = true
		status, _, body := get(t, h, address)
		for _, form := range hiddenForms {
			if strings.Contains(strings.ToLower(body), form) || strings.Contains(body, form) {
				t.Errorf("%s: %d: it has %s", address, status, form)
			}
		}
		if strings.Contains(body, "***") {
			shown++
		}
	}
	if shown < 50 {
		t.Errorf("only %d of %d answers show anything of a payload", shown, len(told))
	}
}

// getParts returns all parts of a search, since a slow search is split.
func getParts(t *testing.T, h *web.Handler, target string) (all string) {
	t.Helper()
	next := regexp.MustCompile(`(?:href=|"next":)"([^"]*cursor=[^"]+|[\w-]{20,})"`)
	for at := target; ; {
		_, _, body := get(t, h, at)
		all += body
		m := next.FindStringSubmatch(body)
		switch {
		case m == nil:
			return all
		case strings.Contains(m[1], "cursor="):
			at = html.UnescapeString(m[1])
		default:
			at = target + "&cursor=" + m[1]
		}
	}
}

func TestWhatIsRedactedIsFoundNowhere(t *testing.T) {
	t.Parallel()
	h := newRedacted(t)
	for _, path := range []string{"/search?", "/api/v2/tasks?", "/api/v2/queues/idle/tasks?", "/api/v2/types?", "/tasks?queue=idle&state=pending&"} {
		for _, word := range []string{"payload:secret", "result:secret", "secret", `payload:"***"`} {
			body := getParts(t, h, path+"filter="+url.QueryEscape(word))
			if found := strings.Contains(body, "kind:pending") || strings.Contains(body, "kind:completed"); found != strings.Contains(word, "*") {
				t.Errorf("%s: %s: found: %v", path, word, found)
			}
		}
	}
}
