package redistest

import (
	"context"
	"flag"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/asynq-go/asynq/internal/rdbcheck"
)

// Must ends the test where a command that prepares it failed.
func Must(t *testing.T, cmd redis.Cmder) {
	t.Helper()
	if err := cmd.Err(); err != nil {
		t.Fatalf("%v: %v", cmd.Args(), err)
	}
}

// NoError ends the test if err is not nil.
func NoError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// WantDump compares the whole database with lines as redistest.Dump prints them. Q: stands for the
// prefix of the keys of queue q, and the order of the lines does not matter.
func WantDump(t *testing.T, r *Redis, want string) {
	t.Helper()
	WantLines(t, r.Dump(t), want)
}

// WantLines reports an error unless the lines are those of want, without regard to indentation.
func WantLines(t *testing.T, got []string, want string) {
	t.Helper()
	lines := []string{}
	for line := range strings.Lines(want) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, strings.ReplaceAll(line, "Q:", "asynq:{q}:"))
		}
	}
	slices.Sort(lines)
	if diff := cmp.Diff(lines, got); diff != "" {
		t.Errorf("Redis holds (-want +got):\n%s", diff)
	}
}

// Unchanged runs f and reports an error if it changes anything in the database.
func Unchanged(t *testing.T, r *Redis, what string, f func()) {
	t.Helper()
	before := r.Snapshot(t)
	f()
	if diff := cmp.Diff(before, r.Snapshot(t)); diff != "" {
		t.Errorf("%s changed what Redis holds (-before +after):\n%s", what, diff)
	}
}

// CheckServer is the invariant check of a server of a test's own.
func CheckServer(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	found, err := rdbcheck.Check(context.Background(), client, "")
	if err != nil {
		t.Error(err)
	}
	for _, v := range found {
		t.Errorf("broken invariant: %v", v)
	}
}

// LimitChecks sets the number of checks of a rapid test unless the command line sets it: a third of
// them under the race detector, which makes each take ten times as long.
func LimitChecks(t *testing.T, checks int) {
	t.Helper()
	if Race {
		checks /= 3
	}
	limits := map[string]string{"rapid.checks": strconv.Itoa(checks), "rapid.steps": "100"}
	for name, value := range limits {
		if givenFlags()[name] {
			continue
		}
		if err := flag.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
}

// givenFlags are those of the command line: its first call is before the first flag.Set.
var givenFlags = sync.OnceValue(func() map[string]bool {
	given := make(map[string]bool)
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	return given
})

// LuaNumbers returns the numbers that a Lua file names.
func LuaNumbers(t *testing.T, path string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	numbers := make(map[string]string)
	for _, m := range regexp.MustCompile(`(?m)^local (\w+) += (\d+)`).FindAllStringSubmatch(string(text), -1) {
		numbers[m[1]] = m[2]
	}
	return numbers
}
