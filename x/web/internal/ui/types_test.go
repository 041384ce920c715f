package ui

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
)

func TestTypes(t *testing.T) {
	prometheus := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		value := "4"
		if strings.Contains(r.FormValue("query"), "outcome") {
			value = "1"
		}
		_, _ = fmt.Fprintf(w, `{"status":"success","data":{"result":[{"metric":{"type":"mail"},"value":[1,%q]}, {"metric":{"type":"other"},"value":[1,"0"]}]}}`, value)
	}))
	t.Cleanup(prometheus.Close)
	s := newSite(t, withPrometheus(t, prometheus.URL))
	s.put("a", failedTask("mail", "no"), &asynq.TaskRecord{State: asynq.TaskStateScheduled, Type: "mail"}, &asynq.TaskRecord{State: asynq.TaskStateScheduled, Type: "image"})
	s.poller.snapshot.Servers = []*asynq.ServerInfo{{Host: "h", ActiveWorkers: []*asynq.WorkerInfo{
		{TaskID: "w1", TaskType: "mail", Queue: "a", Started: s.poller.snapshot.At.Add(-time.Minute)},
		{TaskID: "w2", TaskType: "video", Queue: "a", Started: s.poller.snapshot.At.Add(-time.Hour)},
	}}}
	s.read()
	proctest.Eventually(s, "Prometheus", func() bool { return len(s.get("/types").rows()) == 4 })
	page := s.get("/types")
	if rows := page.rows(); rows[0] != "mail 2 1 1m 1 50 % 0 4.0 /s 4.0s" || rows[1] != "image 1 0 – 0 – 0 – –" {
		t.Errorf("rows %q", rows)
	}
	if rows := s.get("/types", "sort", "longest").rows(); !strings.HasPrefix(rows[0], "video 0 1 1h") {
		t.Errorf("rows %q", rows)
	}
	if rows := s.get("/types", "name", "AG").rows(); len(rows) != 1 || page.search() != `type="mail"` {
		t.Errorf("rows %q, link %v", rows, page.search())
	}
	one := s.get("/type", "type", "mail")
	if text := one.text("main"); !strings.Contains(text, "longest 1m, average 1m") || !strings.Contains(text, "25 % failed") || len(one.links("/error")) == 0 || len(one.links("/task")) != 3 {
		t.Errorf("it says %q", text)
	}
	s.get("/type", "type", "video")
	if a := s.ask("/type?type=none"); a.status != http.StatusNotFound {
		t.Errorf("of none: status %d", a.status)
	}
}

func TestTypesWithoutPrometheus(t *testing.T) {
	s := newSite(t)
	s.put("a", &asynq.TaskRecord{State: asynq.TaskStateScheduled, Type: "mail"})
	s.read()
	if page := s.get("/types"); !strings.Contains(page.text("main"), "set PrometheusAddress") || page.rows()[0] != "mail 1 0 – 0 – 0" {
		t.Errorf("it says %q", page.text("main"))
	}
}

func TestTypesWithAPrometheusThatIsGone(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	s := newSite(t, withPrometheus(t, gone.URL))
	proctest.Eventually(s, "the error of Prometheus", func() bool { return strings.Contains(s.get("/types").text("main"), "Attempt rates unavailable") })
}
