package service_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/service"
)

// The benchmarks use TCP with persistent connections and a redis-server of their own; clients,
// service and Redis share the machine. One operation is one task, so that 1/time is the throughput:
//
//	go test -run '^$' -bench 'Enqueue|TakeAndSettle' -benchtime 50000x ./x/service

func benchEnv(b *testing.B) *env {
	b.Helper()
	s := newEnv(b, realRedis(b), func(c *service.Config) { c.Logger = slog.New(slog.NewTextHandler(io.Discard, nil)) })
	s.server.Client().Transport.(*http.Transport).MaxIdleConnsPerHost = 100
	return s
}

// send makes a request and returns the response body.
func (s *env) send(path string, body []byte) []byte {
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

// inParallel processes n tasks in batches with concurrent clients.
func inParallel(n, clients, batch int, do func(client, tasks int)) {
	var left atomic.Int64
	left.Store(int64(n))
	done := make(chan struct{})
	for client := range clients {
		go func() {
			defer func() { done <- struct{}{} }()
			for {
				remaining := left.Add(int64(-batch)) + int64(batch)
				if remaining <= 0 {
					return
				}
				do(client, min(batch, int(remaining)))
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
	for _, batch := range []int{1, 100} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			s := benchEnv(b)
			b.ResetTimer()
			inParallel(b.N, 8, batch, func(_, n int) { s.send("/v1/tasks/batch", batchBody("q", n)) })
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
		})
	}
}

func BenchmarkTakeAndSettle(b *testing.B) {
	for _, batch := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("n=%d", batch), func(b *testing.B) {
			s := benchEnv(b)
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
						left.Add(int64(-s.round(batch)))
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

// BenchmarkWait measures the load on Redis of 500 requests that have waited for some seconds for
// the results of tasks with a retention. One operation is one second.
//
//	go test -run '^$' -bench Wait -benchtime 10x ./x/service
func BenchmarkWait(b *testing.B) {
	const waiters = 500
	opt := realRedis(b)
	s := newEnv(b, opt, func(c *service.Config) { c.Logger = slog.New(slog.DiscardHandler) })
	s.send("/v1/tasks/batch", bytes.ReplaceAll(batchBody("q", waiters), []byte(`"queue":`), []byte(`"retention":"1h","queue":`)))
	var listed []string
	for task, err := range s.inspector().Tasks(b.Context(), "q", asynq.TaskStatePending, asynq.TaskFilter{}) {
		if err != nil {
			b.Fatal(err)
		}
		listed = append(listed, task.ID)
	}
	ctx, cancel := context.WithCancel(b.Context())
	var group sync.WaitGroup
	for _, id := range listed {
		group.Go(func() { _, _ = s.try(ctx, all, http.MethodGet, "/v1/queues/q/tasks/"+id+"?wait=60s", "") })
	}
	proctest.Eventually(b, "requests to wait", func() bool { return s.service.Waiting() == waiters })
	client := redis.NewClient(&redis.Options{Addr: opt.(asynq.RedisClientOpt).Addr})
	b.Cleanup(func() { _ = client.Close() })
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for range 3 {
		<-second.C // the first reads are over
	}
	before := cost(b, client)
	b.ResetTimer()
	for range b.N {
		<-second.C
	}
	b.StopTimer()
	after := cost(b, client)
	for name, value := range after {
		b.ReportMetric((value-before[name])/b.Elapsed().Seconds(), name+"/s")
	}
	cancel()
	group.Wait()
}

// cost returns the load on Redis since its start: commands, reads from connections (one per small
// request or pipeline), and milliseconds of CPU time.
func cost(b *testing.B, client *redis.Client) map[string]float64 {
	b.Helper()
	text, err := client.Info(b.Context(), "stats", "cpu").Result()
	if err != nil {
		b.Fatal(err)
	}
	value := func(name string) (v float64) {
		_, rest, _ := strings.Cut(text, name+":")
		line, _, _ := strings.Cut(rest, "\r")
		if v, err = strconv.ParseFloat(line, 64); err != nil {
			b.Fatal(err)
		}
		return v
	}
	return map[string]float64{
		"commands": value("total_commands_processed"), "reads": value("total_reads_processed"),
		"cpu-ms": 1000 * (value("used_cpu_sys") + value("used_cpu_user")),
	}
}

// round takes and settles tasks, and returns their number.
func (s *env) round(n int) int {
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
