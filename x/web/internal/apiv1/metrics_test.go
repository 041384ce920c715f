package apiv1_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/web/internal/apiv1"
)

const matrix = `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"x","queue":"default"},"values":[[1700000000,"1"],[1700000015.5,"2.5"]]}]}}`

// newPrometheus returns a server that responds like Prometheus, or with answer.
func newPrometheus(t testing.TB, answer http.HandlerFunc) *httptest.Server {
	t.Helper()
	if answer == nil {
		answer = func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, matrix) }
	}
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return server
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asked []url.Values
	prometheus := newPrometheus(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.URL.Query())
		mu.Unlock()
		if r.URL.Path != "/prefix/api/v1/query_range" {
			t.Errorf("asked at %s", r.URL.Path)
		}
		switch query := r.URL.Query().Get("query"); {
		case strings.Contains(query, "archived"):
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"status":"error","errorType":"bad_data","error":"no"}`)
		case strings.Contains(query, "retry"):
			fmt.Fprint(w, "<html>")
		case strings.HasPrefix(query, "asynq_queue_size"):
			http.Redirect(w, r, "/elsewhere", http.StatusFound) // must not be followed
		default:
			fmt.Fprint(w, matrix)
		}
	})
	s := newSite(t, miniredis.RunT(t).Addr(), func(c *apiv1.Config) { c.PrometheusAddress = prometheus.URL + "/prefix/" })
	type chart struct{ Status, Error string }
	charts := get[map[string]chart](s, "/metrics?duration=86400&endtime=1700000000&queues="+url.QueryEscape(`a.b,q"}`))
	if len(charts) != 9 || charts["queue_latency_seconds"].Status != "success" || charts["archived_tasks_by_queue"].Error != "no" {
		t.Errorf("charts: %v", charts)
	}
	for _, name := range []string{"retry_tasks_by_queue", "queue_size"} {
		if charts[name].Status != "error" || charts[name].Error == "" {
			t.Errorf("%s: %v", name, charts[name])
		}
	}
	queries := make(map[string]bool)
	for _, q := range asked {
		queries[q.Get("query")] = true
		if q.Get("start") != "1699913600" || q.Get("end") != "1700000000" || q.Get("step") != "60" {
			t.Errorf("asked for %v", q)
		}
	}
	for _, want := range []string{
		`asynq_queue_latency_seconds{queue=~"a\\.b|q\"\\}"}`,
		`rate(asynq_tasks_failed_total{queue=~"a\\.b|q\"\\}"}[5m]) / rate(asynq_tasks_processed_total{queue=~"a\\.b|q\"\\}"}[5m])`,
		`asynq_tasks_enqueued_total{state="pending",queue=~"a\\.b|q\"\\}"}`,
	} {
		if !queries[want] {
			t.Errorf("%s was not queried, but %v", want, queries)
		}
	}
	for _, query := range []string{"duration=x", "duration=-1", "duration=0", "endtime=x", "duration=99999999999999999999"} {
		s.want(http.StatusBadRequest, http.MethodGet, "/metrics?"+query, "")
	}
}

func TestMetricsWithoutPrometheus(t *testing.T) {
	t.Parallel()
	addr := miniredis.RunT(t).Addr()
	newSite(t, addr).want(http.StatusNotFound, http.MethodGet, "/metrics", "")
	unreachable := proctest.FreeAddr(t)
	newSite(t, addr, func(c *apiv1.Config) { c.PrometheusAddress = unreachable }).want(http.StatusBadGateway, http.MethodGet, "/metrics", "")
	endless := newPrometheus(t, func(w http.ResponseWriter, _ *http.Request) {
		line := []byte(strings.Repeat(" ", 1<<16))
		for {
			if _, err := w.Write(line); err != nil {
				return
			}
		}
	})
	newSite(t, addr, func(c *apiv1.Config) { c.PrometheusAddress = endless.URL }).want(http.StatusBadGateway, http.MethodGet, "/metrics", "")
}
