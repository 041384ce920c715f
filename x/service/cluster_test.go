package service_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/service"
)

const clusterNodes = 3

// redisCluster starts a Redis Cluster of three primaries.
func redisCluster(t *testing.T) asynq.RedisConnOpt {
	t.Helper()
	var addrs []string
	for _, node := range proctest.StartPrimaries(t, clusterNodes, "--cluster-node-timeout", "5000") {
		addrs = append(addrs, node.Addr())
	}
	return asynq.RedisClusterClientOpt{Addrs: addrs}
}

// in returns the environment for a subtest.
func (s *env) in(t *testing.T) *env {
	part := *s
	part.t = t
	return &part
}

// On a Cluster, queues are in different slots and on different nodes. All operations work as on a
// single node.
func TestCluster(t *testing.T) {
	t.Parallel()
	opt := redisCluster(t)
	const queues = 12
	s := newEnv(t, opt, func(c *service.Config) {
		c.Queues = map[string]service.QueueConfig{"strict": {InOrder: true}, "one": {MaxRun: 1}}
		c.Limits.LeaseDuration = 2 * time.Second
	})
	names := make([]string, queues)
	var batch []string
	for n := range names {
		names[n] = fmt.Sprint("q", n)
		for id := range 5 {
			batch = append(batch, fmt.Sprintf(`{"type":"t","queue":%q,"id":"%d","payload":%d,"retention":"1h"}`, names[n], id, id))
		}
	}

	s.call("POST", "/v1/tasks", `{"type":"later","id":"1","process_in":"1s"}`).want(201) // taken at the end

	t.Run("batch over all nodes", func(t *testing.T) {
		s := s.in(t)
		r := s.call("POST", "/v1/tasks/batch", `{"tasks":[`+strings.Join(batch, ",")+`]}`).want(200)
		for i := range r.list("results") {
			if r.get("results", i, "created") != true {
				t.Fatalf("%s", r.body)
			}
		}
		nodes := make(map[string]bool)
		for _, q := range names {
			infos, err := s.inspector().ClusterNodes(q)
			if err != nil {
				t.Fatal(err)
			}
			nodes[infos[0].Addr] = true
		}
		if len(nodes) != clusterNodes {
			t.Fatalf("the queues are on %d nodes", len(nodes))
		}
		again := s.call("POST", "/v1/tasks/batch", `{"tasks":[`+strings.Join(batch[:3], ",")+`]}`).want(200)
		if again.get("results", 2, "created") != false {
			t.Errorf("again: %s", again.body)
		}
	})

	t.Run("wait, take from many queues, settle many", func(t *testing.T) {
		s := s.in(t)
		var waiters sync.WaitGroup
		for _, q := range names {
			waiters.Go(func() {
				if r := s.call("GET", "/v1/queues/"+q+"/tasks/4?wait=20s", "").want(200); r.str("task", "state") != "completed" || r.get("task", "result") != 4.0 {
					t.Errorf("queue %s: %s", q, r.body)
				}
			})
		}
		proctest.Eventually(t, "requests to wait", func() bool { return s.service.Waiting() == queues })
		seen := make(map[string]int)
		var leases []string
		body := `{"queues":["` + strings.Join(names, `","`) + `"],"n":100,"wait":"10s"}`
		for len(seen) < 5*queues {
			r := s.call("POST", "/v1/take", body).want(200)
			if len(r.list("tasks")) == 0 {
				t.Fatalf("%d of %d tasks were delivered", len(seen), 5*queues)
			}
			var outcomes []string
			for i := range r.list("tasks") {
				queue, id, lease := r.str("tasks", i, "queue"), r.str("tasks", i, "id"), r.str("tasks", i, "lease")
				seen[queue+"/"+id]++
				leases = append(leases, lease)
				outcomes = append(outcomes, fmt.Sprintf(`{"lease":%q,"outcome":"done","result":%s}`, lease, id))
			}
			x := s.call("POST", "/v1/leases/extend", `{"leases":["`+strings.Join(leases[len(leases)-len(outcomes):], `","`)+`"]}`).want(200)
			if strings.Contains(string(x.body), "problem") {
				t.Errorf("extended: %s", x.body)
			}
			x = s.call("POST", "/v1/leases/settle", `{"outcomes":[`+strings.Join(outcomes, ",")+`]}`).want(200)
			if strings.Contains(string(x.body), "problem") {
				t.Errorf("settled: %s", x.body)
			}
		}
		for task, times := range seen {
			if times != 1 {
				t.Errorf("task %s was delivered %d times", task, times)
			}
		}
		waiters.Wait()
	})

	t.Run("fail, release and lose a lease", func(t *testing.T) {
		s := s.in(t)
		s.enqueue("mixed", 3, `,"max_retry":1`)
		l, ids := s.takeAll("mixed", 3)
		s.call("POST", "/v1/leases/"+l[0]+"/fail", `{"error":"x","retry_in":"0s"}`).want(200)
		s.call("POST", "/v1/leases/"+l[1]+"/fail", `{"error":"x","skip_retry":true}`).want(200)
		s.call("POST", "/v1/leases/"+l[2]+"/release", "").want(200)
		if _, next := s.takeAll("mixed", 2); !(next[0] == ids[2] && next[1] == ids[0] || next[0] == ids[0] && next[1] == ids[2]) {
			t.Errorf("took %v again", next)
		}
		if got := s.state("mixed", ids[1]); got != "archived" {
			t.Errorf("task %s is %s", ids[1], got)
		}
		// Both workers stop extending: the first attempt is retried, the second is archived.
		proctest.Eventually(t, "the leases to expire", func() bool { return s.state("mixed", ids[0]) == "archived" && s.state("mixed", ids[2]) != "active" })
		s.call("POST", "/v1/leases/"+l[0]+"/done", "").problem(409, "lease-lost") // the previous attempt
	})

	t.Run("strict order and max_run", func(t *testing.T) {
		s := s.in(t)
		s.enqueue("strict", 3, "")
		s.enqueue("one", 2, "")
		l, ids := s.take("strict", 3, "50s")
		if fmt.Sprint(ids) != "[1]" {
			t.Fatalf("took %v, want only task 1", ids)
		}
		s.call("POST", "/v1/leases/"+l[0]+"/fail", `{"error":"x","retry_in":"1h"}`).want(200)
		if _, more := s.take("strict", 3, "100ms"); len(more) != 0 {
			t.Fatalf("took %v before the retry of task 1", more)
		}
		s.call("POST", "/v1/queues/strict/tasks/1/reschedule", `{"in":"0s"}`).want(204)
		for _, want := range []string{"[1]", "[2]", "[3]"} {
			l, ids := s.take("strict", 3, "50s")
			if fmt.Sprint(ids) != want {
				t.Fatalf("took %v, want %s", ids, want)
			}
			s.call("POST", "/v1/leases/"+l[0]+"/done", "").want(200)
		}
		if _, ids := s.take("one", 2, "50s"); fmt.Sprint(ids) != "[1]" {
			t.Errorf("took %v of a queue with max_run 1", ids)
		}
	})

	t.Run("a workflow over all nodes", func(t *testing.T) {
		s := s.in(t)
		var parts, waits []string
		for _, q := range names {
			parts = append(parts, fmt.Sprintf(`{"name":%q,"tasks":[{"type":"t","queue":%q},{"type":"shared"}],"after":["first"]}`, q, q))
			waits = append(waits, q)
		}
		s.call("POST", "/v1/workflows", `{"id":"w","nodes":[{"name":"first","task":{"type":"shared"}},`+strings.Join(parts, ",")+
			`,{"name":"last","task":{"type":"shared"},"after":["`+strings.Join(waits, `","`)+`"]}]}`).want(201)
		body := `{"queues":["shared","` + strings.Join(names, `","`) + `"],"n":100,"wait":"10s"}`
		last := ""
		for taken := 0; taken < 2+2*queues; {
			r := s.call("POST", "/v1/take", body).want(200)
			if len(r.list("tasks")) == 0 {
				t.Fatalf("only %d tasks were delivered", taken)
			}
			for i := range r.list("tasks") {
				taken++
				last = r.str("tasks", i, "node")
				s.settle(r.str("tasks", i, "lease"), "done", "")
			}
		}
		if r := s.call("GET", "/v1/workflows/w?wait=50s", "").want(200); last != "last" || r.get("workflow", "status") != "succeeded" || r.get("workflow", "succeeded") != float64(2+2*queues) {
			t.Errorf("the last task is of node %s: %s", last, r.body)
		}
	})

	t.Run("delays, changes and lists", func(t *testing.T) {
		s := s.in(t)
		s.call("POST", "/v1/tasks", `{"type":"changed","id":"1","process_in":"1h"}`).want(201)
		s.call("POST", "/v1/queues/changed/pause", "").want(204)
		s.call("POST", "/v1/queues/changed/tasks/1/run", "").want(204)
		s.call("POST", "/v1/queues/changed/resume", "").want(204)
		s.call("POST", "/v1/queues/changed/tasks/1/archive", "").want(204)
		s.call("DELETE", "/v1/queues/changed/tasks/1", "").want(204)
		if _, ids := s.take("later", 1, "50s"); len(ids) != 1 {
			t.Error("the scheduled task was not delivered")
		}
		r := s.call("GET", "/v1/queues", "").want(200)
		completed := 0.0
		for i := range r.list("queues") {
			n, _ := r.get("queues", i, "completed").(float64)
			completed += n
		}
		if n := len(r.list("queues")); n != queues+6 || completed != 5*queues {
			t.Errorf("%d queues with %v completed tasks: %s", n, completed, r.body)
		}
		s.call("GET", "/metrics", "").want(200)
		s.callAs("", "GET", "/readyz", "").want(200)
	})

	if strings.Contains(s.log.String(), "CROSSSLOT") || strings.Contains(s.log.String(), "level=ERROR") {
		t.Errorf("logged:\n%s", s.log)
	}
}
