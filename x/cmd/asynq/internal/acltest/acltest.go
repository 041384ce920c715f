// Package acltest starts a Redis with the users of docs/ACL.md.
package acltest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/internal/proctest"
)

const password = "secret"

// Redis is a redis-server with the users.
type Redis struct {
	Addr string

	t     testing.TB
	admin *redis.Client // the default user, which may do everything
}

// Start starts a redis-server with the users. It stops at the end of the test, which fails if Redis
// denied a command since the last call of Denied.
func Start(t testing.TB) *Redis {
	t.Helper()
	return start(t, proctest.StartRedis(t).Addr(), func(string) []any { return nil })
}

// StartCluster starts a Cluster of one node with the users and their additional rules for a
// Cluster.
func StartCluster(t testing.TB) *Redis {
	t.Helper()
	return start(t, proctest.StartCluster(t).Addr(), func(role string) []any {
		rules := []any{"+cluster|slots", "+command"}
		if role != "observer" {
			rules = append(rules, "+publish", "&asynq:wake")
		}
		return rules
	})
}

// start adds further rules for a role to those of docs/ACL.md.
func start(t testing.TB, addr string, further func(role string) []any) *Redis {
	t.Helper()
	r := &Redis{Addr: addr, t: t, admin: redis.NewClient(&redis.Options{Addr: addr})}
	t.Cleanup(func() {
		if denied := r.Denied(); len(denied) > 0 {
			t.Errorf("Redis denied %q", denied)
		}
		_ = r.admin.Close()
	})
	for _, line := range lines(t) {
		var args []any
		role, _, _ := strings.Cut(strings.TrimPrefix(line, command), " ")
		for word := range strings.FieldsSeq(strings.Replace(line, ">PASSWORD", ">"+password, 1)) {
			args = append(args, word)
		}
		if err := r.admin.Do(context.Background(), append(args, further(role)...)...).Err(); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
	}
	return r
}

// command is the start of a line that creates the user of a role.
const command = "ACL SETUSER asynq-"

// lines returns the commands of docs/ACL.md.
func lines(t testing.TB) []string {
	t.Helper()
	var found []string
	for line := range strings.Lines(page(t)) {
		if strings.HasPrefix(line, command) {
			found = append(found, line)
		}
	}
	if len(found) != 5 {
		t.Fatalf("docs/ACL.md has %d users", len(found))
	}
	return found
}

// page returns docs/ACL.md.
func page(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "..", "docs", "ACL.md")) // the callers are next to this package
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Grant adds the rules to a role that docs/ACL.md lists between a text, whose lines may be joined,
// and the next backtick.
func (r *Redis) Grant(role, before string) {
	r.t.Helper()
	_, rest, ok := strings.Cut(strings.Join(strings.Fields(page(r.t)), " "), before)
	rules, _, closed := strings.Cut(rest, "`")
	if !ok || !closed {
		r.t.Fatalf("docs/ACL.md does not have %q with rules", before)
	}
	user := []any{"ACL", "SETUSER", "asynq-" + role}
	for rule := range strings.FieldsSeq(rules) {
		user = append(user, rule)
	}
	r.Do(user...)
}

// As returns the connection options of a role.
func (r *Redis) As(role string) asynq.RedisClientOpt {
	return asynq.RedisClientOpt{Addr: r.Addr, Username: "asynq-" + role, Password: password}
}

// URI returns the URI of a role for the command line.
func (r *Redis) URI(role string) string {
	return fmt.Sprintf("redis://asynq-%s:%s@%s", role, password, r.Addr)
}

// Do runs a command as a user with all permissions.
func (r *Redis) Do(args ...any) *redis.Cmd {
	r.t.Helper()
	cmd := r.admin.Do(context.Background(), args...)
	if cmd.Err() != nil {
		r.t.Fatalf("%v: %v", args, cmd.Err())
	}
	return cmd
}

// Denied returns the commands that Redis denied since the last call, except the CLIENT commands
// that go-redis sends when it connects.
func (r *Redis) Denied() []string {
	r.t.Helper()
	entries, err := r.admin.ACLLog(context.Background(), 1000).Result()
	if err != nil {
		r.t.Fatal(err)
	}
	var denied []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Object, "client") {
			denied = append(denied, fmt.Sprintf("%s: %s %s", e.Username, e.Reason, e.Object))
		}
	}
	r.Do("ACL", "LOG", "RESET")
	return denied
}

// Dump returns the serialized values of all keys.
func (r *Redis) Dump() map[string]string {
	r.t.Helper()
	ctx, dump := context.Background(), make(map[string]string)
	keys, err := r.admin.Keys(ctx, "*").Result()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, key := range keys {
		value, err := r.admin.Dump(ctx, key).Result()
		if err != nil {
			r.t.Fatal(err)
		}
		dump[key] = value
	}
	return dump
}
