package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Secrets of the test tokens.
const (
	token     = "e2e-token-with-all-scopes"
	readToken = "e2e-token-for-reading"
	newToken  = "e2e-token-added-by-reload"
)

const (
	queues   = "  ordered: {max_run: 1}\n"
	allTasks = "scopes: [enqueue, work, read, manage], queues: ['*']"
)

// writeConfig writes the configuration of the service with additional queues and tokens, which are
// lines of YAML. The first call chooses the path.
func (s *env) writeConfig(t *testing.T, moreQueues, moreTokens string) {
	t.Helper()
	if s.config == "" {
		s.config = filepath.Join(t.TempDir(), "service.yaml")
	}
	s.write(t, fmt.Sprintf("redis: {uri: 'redis://%s'}\nlisten: %s\n", s.redis, s.addr)+
		"queues:\n"+queues+moreQueues+
		"tokens:\n"+
		"  - {name: all, secret: "+token+", "+allTasks+"}\n"+
		"  - {name: reader, secret: "+readToken+", scopes: [read], queues: ['*']}\n"+moreTokens+
		fmt.Sprintf("limits: {lease_duration: %v, shutdown_timeout: %v}\n", s.lease, 5*time.Second))
}

// write atomically replaces the configuration file.
func (s *env) write(t *testing.T, text string) {
	t.Helper()
	next := s.config + ".next"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, s.config); err != nil {
		t.Fatal(err)
	}
}
