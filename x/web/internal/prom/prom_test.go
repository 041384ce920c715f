package prom_test

import (
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/asynq-go/asynq/x/web/internal/prom"
)

func client(t *testing.T, answer http.HandlerFunc) *prom.Client {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	c := prom.NewPatient(s.URL+"/", slog.New(slog.DiscardHandler))
	t.Cleanup(c.Close)
	return c
}

func vector(series string) string {
	return `{"status":"success","data":{"resultType":"vector","result":[` + series + `]}}`
}

func TestRates(t *testing.T) {
	t.Parallel()
	c := client(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/query" {
			t.Errorf("asked at %s", r.URL.Path)
		}
		answer := vector(``)
		switch q := r.FormValue("query"); {
		case strings.Contains(q, "outcome"):
			answer = vector(`{"metric":{"type":"a"},"value":[1,"0.5"]}`)
		case strings.Contains(q, "asynq_attempts_total"):
			answer = vector(`{"metric":{"type":"a"},"value":[1,"2.5"]},{"metric":{"type":"b"},"value":[1,"1"]},{"metric":{"type":"c"},"value":[1,"NaN"]}`)
		case strings.Contains(q, "histogram_sum"):
			answer = vector(`{"metric":{"type":"a"},"value":[1,"0.25"]}`)
		}
		_, _ = w.Write([]byte(answer))
	})
	got, err := c.Types(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := (prom.Rates{Attempts: 2.5, Failed: 0.5, Average: 0.25}); got["a"] != want {
		t.Errorf("of a: %+v, want %+v", got["a"], want)
	}
	if b := got["b"]; b.Attempts != 1 || b.Failed != 0 || !math.IsNaN(b.Average) {
		t.Errorf("of b: %+v", b)
	}
	if _, ok := got["c"]; ok {
		t.Error("a series without a value is returned")
	}
}

func TestTrouble(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"refused": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = w.Write([]byte(`{"status":"error","error":"bad query"}`))
		}, "bad query"},
		"other": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }, "not a Prometheus response"},
		"elsewhere": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusTemporaryRedirect)
		}, "not a Prometheus response"},
		"endless": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(strings.Repeat(" ", 5<<20))) }, "exceeds"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			types, err := client(t, c.answer).Types(t.Context())
			if types != nil || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, %v", types, err)
			}
		})
	}
}

func TestNone(t *testing.T) {
	t.Parallel()
	c := prom.New("", nil)
	if types, err := c.Types(t.Context()); types != nil || err != nil {
		t.Errorf("got %v, %v", types, err)
	}
	c.Close()
}
