package standalone

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// initial is the configuration that Init writes.
const initial = `# Configuration of the asynq queue service. docs/SERVICE_CONFIG.md describes all keys.
# After a change: asynq service check FILE

redis:
  uri: redis://localhost:6379 # also rediss://, redis-sentinel:// and redis-cluster://
  # password: ${REDIS_PASSWORD} # an environment variable; file:PATH reads a file

listen: localhost:8600 # ":8600" listens on all interfaces: set tls as well
# tls: {cert: service.pem, key: service.key}

tokens: # clients send the secret: "Authorization: Bearer SECRET"
  - name: dev
    secret: SECRET
    scopes: [enqueue, work, read, manage]
    queues: ["*"] # all queues; or names, and prefixes such as "email:*"

# queues: # settings of individual queues; a queue is created with its first task
#   email:welcome: {max_run: 10, max_retry: 5, timeout: 30s, retention: 24h}
`

// Init writes a commented configuration with a generated token to a file that only its owner can
// read. It returns an error that satisfies errors.Is(err, fs.ErrExist) if the file exists, unless
// force is set: the file is replaced then.
func Init(path string, force bool) error {
	secret := make([]byte, 24)
	_, _ = rand.Read(secret) // never fails
	text := strings.Replace(initial, "secret: SECRET", "secret: "+hex.EncodeToString(secret), 1)
	if !force {
		return createNew(path, text)
	}
	// A temporary file is made with mode 0600; renaming it replaces the mode of the old file, too.
	next, err := os.CreateTemp(filepath.Dir(path), ".asynq-service-*")
	if err != nil {
		return fmt.Errorf("cannot write the configuration: %w", err)
	}
	_, err = next.WriteString(text)
	if err = errors.Join(err, next.Close()); err == nil {
		err = os.Rename(next.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("cannot write the configuration: %w", errors.Join(err, os.Remove(next.Name())))
	}
	return nil
}

// createNew writes a file, which must not exist.
func createNew(path, text string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return err
	}
	if err != nil {
		return fmt.Errorf("cannot write the configuration: %w", err)
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("cannot write the configuration: %w", errors.Join(err, os.Remove(path)))
	}
	return nil
}
