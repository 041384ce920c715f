package service_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/asynq-go/asynq/x/service"
)

// The benchmarks go through TCP with connections that are kept, to a redis-server of their own; clients, service and Redis share the
// machine. One operation is one task, so that 1/time is the throughput:
//
//	go test -run '^$' -bench . -benchtime 50000x ./x/service

func benchSite(b *testing.B) *site {
	b.Helper()
	s := newSite(b, realRedis(b), func(c *service.Config) { c.Logger = slog.New(slog.NewTextHandler(io.Discard, nil)) })
	s.server.Client().Transport.(*http.Transport).MaxIdleConnsPerHost = 100
	return s
}

// send makes a request, and returns the answer.
func (s *site) send(path string, body []byte) []byte {
	req, _ := http.NewRequest(http.MethodPost, s.server.URL+path, bytes.NewReader(body))
	req.Header.Set("Authorization", "Bearer "+all)
	res, err := s.server.Client().Do(req)
	if err != nil {
		s.t.Error(err)
		return nil
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode >= 300 {
		s.t.Errorf("status %d, %v: %s", res.StatusCode, err, text)
	}
	return text
}

// inParallel has 8 clients make n tasks in portions.
func inParallel(n, clients, portion int, do func(client, tasks int)) {
	var left atomic.Int64
	left.Store(int64(n))
	done := make(chan struct{})
	for client := range clients {
		go func() {
			defer func() { done <- struct{}{} }()
			for {
				rest := left.Add(int64(-portion)) + int64(portion)
				if rest <= 0 {
					return
				}
				do(client, min(portion, int(rest)))
			}
		}()
	}
	for range clients {
		<-done
	}
}

func batchBody(queue string, n int) []byte {
	task := fmt.Sprintf(`{"type":"email:welcome","queue":%q,"payload":{"user":12345,"template":"welcome","locale":"en"}}`, queue)
	return []byte(`{"tasks":[` + strings.Repeat(task+",", n-1) + task + `]}`)
}

func BenchmarkEnqueue(b *testing.B) {
	for _, portion := range []int{1, 100} {
		b.Run(fmt.Sprintf("batch=%d", portion), func(b *testing.B) {
			s := benchSite(b)
			b.ResetTimer()
			inParallel(b.N, 8, portion, func(_, n int) { s.send("/v1/tasks/batch", batchBody("q", n)) })
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
		})
	}
}

func BenchmarkTakeAndSettle(b *testing.B) {
	for _, portion := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("n=%d", portion), func(b *testing.B) {
			s := benchSite(b)
			inParallel(b.N, 8, 1000, func(_, n int) { s.send("/v1/tasks/batch", batchBody("q", n)) })
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ResetTimer()
			done := make(chan struct{})
			const clients = 8
			for range clients {
				go func() {
					defer func() { done <- struct{}{} }()
					for left.Load() > 0 {
						left.Add(int64(-s.round(portion)))
					}
				}()
			}
			for range clients {
				<-done
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
		})
	}
}

// round takes tasks, settles them and returns how many they were.
func (s *site) round(n int) int {
	var got struct {
		Tasks []struct {
			Lease string `json:"lease"`
		} `json:"tasks"`
	}
	if err := json.Unmarshal(s.send("/v1/take", fmt.Appendf(nil, `{"queues":["q"],"n":%d,"wait":"100ms"}`, n)), &got); err != nil {
		s.t.Error(err)
		return 0
	}
	if len(got.Tasks) == 0 {
		return 0
	}
	var body bytes.Buffer
	body.WriteString(`{"outcomes":[`)
	for i, task := range got.Tasks {
		if i > 0 {
			body.WriteByte(',')
		}
		fmt.Fprintf(&body, `{"lease":%q,"outcome":"done"}`, task.Lease)
	}
	body.WriteString(`]}`)
	s.send("/v1/leases/settle", body.Bytes())
	return len(got.Tasks)
}
