package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The secrets of the tokens of the service under test.
const (
	token     = "e2e-token-that-may-do-anything"
	readToken = "e2e-token-that-may-only-look"
	newToken  = "e2e-token-that-comes-later"
)

const (
	queues   = "  ordered: {max_run: 1}\n"
	allTasks = "scopes: [enqueue, work, read, manage], queues: ['*']"
)

// writeConfig writes the service's configuration file anew, with these more queues and tokens, which are lines of YAML. The first call
// says where the file is.
func (s *site) writeConfig(t *testing.T, moreQueues, moreTokens string) {
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

// write puts a text in place of the configuration, as a whole.
func (s *site) write(t *testing.T, text string) {
	t.Helper()
	next := s.config + ".next"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, s.config); err != nil {
		t.Fatal(err)
	}
}
