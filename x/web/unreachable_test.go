package web_test

import (
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/web"
)

// Pages and APIs report once that Redis is unreachable, and why.
func TestUnreachableRedisIsReportedOnce(t *testing.T) {
	t.Parallel()
	mini := miniredis.RunT(t)
	addr := mini.Addr()
	mini.Close()
	// Without retries, a call fails long before the time limit of a poll, which would be the cause
	// otherwise.
	redis := asynq.RedisClientOpt{Addr: addr, Params: "max_retries=-1"}
	h := web.New(web.Options{RedisConnOpt: redis, Anonymous: web.Viewer, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	t.Cleanup(func() { _ = h.Close() })
	cause := "Redis is unreachable: dial tcp " + addr + ": connect: connection refused"
	proctest.Eventually(t, "the first poll to fail", func() bool {
		_, _, body := get(t, h, "/api/v2/health")
		return strings.Contains(body, cause)
	})
	for _, path := range []string{"/", "/redis", "/errors", "/groups", "/api/queues", "/api/v2/queues", "/api/v2/health", "/api/v2/servers"} {
		_, _, body := get(t, h, path)
		if strings.Contains(body, "<main") {
			_, body, _ = strings.Cut(body, "<main")
		}
		for _, again := range []string{"cannot be", "asynq: ", "listing queues", "listing servers"} {
			if strings.Contains(body, again) {
				t.Errorf("%s says %q: %s", path, again, body)
			}
		}
		if !strings.Contains(body, cause) {
			t.Errorf("%s does not say %q: %s", path, cause, body)
		}
	}
}
