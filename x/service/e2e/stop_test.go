package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/asynq-go/asynq/internal/proctest"
)

// 6,000 tasks pass through four PHP workers while the service reloads a new and an invalid
// configuration, and is stopped with SIGTERM and restarted. Each task runs once, in its first
// attempt. The new configuration applies at once; the invalid one changes nothing.
func TestStopAndReloadUnderLoad(t *testing.T) {
	const tasks, workers, limit = 6000, 4, 20
	s := newEnv(t, lease)
	log := newLogbook(t)
	var crew []*process
	for range workers {
		crew = append(crew, s.php(t, "worker.php", log.path, "10", "1", "ordered", "bulk"))
	}
	producer := s.php(t, "produce.php", fmt.Sprint(tasks), fmt.Sprintf("ordered:%d", orderedEvery), "bulk:1")
	done := func(fifths int) {
		t.Helper()
		proctest.Eventually(t, "progress of the workers", func() bool { return len(log.lines()) >= 2*tasks*fifths/5 })
	}

	done(1)
	if got := s.status(t, newToken); got != http.StatusUnauthorized {
		t.Errorf("status %d for an unknown token", got)
	}
	s.writeConfig(t, fmt.Sprintf("  bulk: {max_run: %d}\n", limit), "  - {name: new, secret: "+newToken+", "+allTasks+"}\n")
	s.hangup(t)
	proctest.Eventually(t, "the new token is valid", func() bool { return s.status(t, newToken) == http.StatusOK })
	i := s.inspector(t)
	active := func() int {
		info, err := i.GetQueueInfo("bulk")
		if err != nil {
			t.Fatal(err)
		}
		return info.Active
	}
	proctest.Eventually(t, "active tasks drop to the new limit", func() bool { return active() <= limit })
	checked := 0
	atMost := func() {
		t.Helper()
		checked++
		if n := active(); n > limit {
			t.Errorf("%d active tasks, max_run is %d", n, limit)
		}
	}

	proctest.Eventually(t, "progress of the workers", func() bool { atMost(); return len(log.lines()) >= 2*tasks*2/5 })
	s.write(t, "listen: "+s.addr+"\nqueues: {bulk: {max_run: many}}\n")
	s.hangup(t)
	proctest.Eventually(t, "the invalid file is reported", func() bool {
		output := s.service.output(t)
		return strings.Contains(output, "keeping the previous configuration") && strings.Contains(output, "service.yaml:2:26:")
	})
	if got := s.status(t, newToken); got != http.StatusOK {
		t.Errorf("status %d for a token after an invalid file", got)
	}

	s.writeConfig(t, fmt.Sprintf("  bulk: {max_run: %d}\n", limit), "  - {name: new, secret: "+newToken+", "+allTasks+"}\n")
	proctest.Eventually(t, "progress of the workers", func() bool { atMost(); return len(log.lines()) >= 2*tasks*3/5 })
	stopped := time.Now()
	s.service.term(t) // exits with 0
	ended := time.Since(stopped)
	s.serve(t)
	t.Logf("ended in %v, ready again after %v", ended.Round(time.Millisecond), time.Since(stopped).Round(time.Millisecond))
	proctest.Eventually(t, "progress of the workers", func() bool { atMost(); return len(log.lines()) >= 2*tasks*4/5 })
	producer.wait(t)
	drain(t, s, tasks)
	t.Logf("active tasks were counted %d times", checked)
	for _, w := range crew {
		w.term(t)
	}

	seen := make(map[string]int)
	for _, line := range log.lines() {
		var what, typename string
		var n, attempt, pid int
		if strings.HasPrefix(line, "stopped") {
			continue
		}
		if _, err := fmt.Sscan(line, &what, &typename, &n, &attempt, &pid); err != nil {
			t.Fatal(err)
		}
		if attempt != 1 {
			t.Errorf("%q: want one attempt of each task", line)
		}
		seen[fmt.Sprint(what, n)]++
	}
	if len(seen) != 2*tasks {
		t.Errorf("%d starts and ends of %d tasks", len(seen), tasks)
	}
	for what, times := range seen {
		if times != 1 {
			t.Errorf("%s: %d times", what, times)
		}
	}
}

// hangup makes the service reload its configuration.
func (s *env) hangup(t *testing.T) {
	t.Helper()
	if err := s.service.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
}

// status returns the status of the response to a request with a token.
func (s *env) status(t *testing.T, token string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url()+"/v1/queues", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}
