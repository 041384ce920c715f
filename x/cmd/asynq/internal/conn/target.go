package conn

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/asynq-go/asynq"
)

// Target is what a command works on.
type Target struct {
	Context   string // "" if none is selected
	Server    string // without passwords
	Database  int    // 0 in a Cluster, which has no others
	Namespace string
}

// defaultNamespace is the namespace of connections without one.
const defaultNamespace = "asynq"

// Target returns the target of the connection.
func (c *Config) Target() Target {
	t := Target{Context: c.Context, Namespace: cmp.Or(c.Namespace(), defaultNamespace)}
	opt, uri, err := c.address()
	if err != nil {
		t.Server = "an invalid address" // connecting returns the error
		return t
	}
	database := func(inURI int) int {
		if c.has("db") && (inURI == 0 || c.values["db"].from >= uri) {
			return c.database()
		}
		return inURI
	}
	switch o := opt.(type) {
	case asynq.RedisClientOpt:
		t.Server, t.Database = o.Addr, database(o.DB)
	case asynq.RedisFailoverClientOpt:
		t.Server, t.Database = fmt.Sprintf("master %q of the sentinels %s", o.MasterName, strings.Join(o.SentinelAddrs, ",")), database(o.DB)
	case asynq.RedisClusterClientOpt:
		t.Server = "the cluster " + strings.Join(o.Addrs, ",")
	}
	return t
}

// String describes the target for questions and messages.
func (t Target) String() string {
	text := fmt.Sprintf("%s, database %d, namespace %q", t.Server, t.Database, t.Namespace)
	if t.Context != "" {
		text = fmt.Sprintf("context %q (%s)", t.Context, text)
	}
	return text
}

// Protected reports whether changes require the name of the context.
func (c *Config) Protected() bool { return c.boolean("protected") }

// ReadOnly reports whether changes are rejected.
func (c *Config) ReadOnly() bool { return c.boolean("read-only") }
