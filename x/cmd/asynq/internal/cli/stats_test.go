package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/asynq-go/asynq"
)

// A total over nine of ten queues is marked, and the unreadable queue has no numbers.
func TestStatsOfABrokenQueue(t *testing.T) {
	w := newWorld(t)
	for n := range 10 {
		w.enqueueTo(fmt.Sprint("q", n), n+1)
	}
	w.breakQueue("q3")
	r := w.run("stats")
	for _, want := range []string{"Tasks by state, 9 of 10 queues\n", "Today (UTC), 9 of 10 queues\n", "\n     0       51 "} {
		if !strings.Contains(r.out, want) {
			t.Errorf("got %+v; want %q in it", r, want)
		}
	}
	if !containsFields(r.out, "q3 ? ? ? ? ?") || !containsFields(r.out, "q4 5") || r.code != ExitFailed || strings.Count(r.err, "\n") != 1 {
		t.Errorf("got %+v; want the broken queue without numbers, and one error", r)
	}
	var row struct {
		Total, Read int
		Tasks       map[string]*int
		Queues      []map[string]any
	}
	decode(t, w.run("stats", "--json").out, "queues_total", &row.Total, "queues_read", &row.Read, "tasks", &row.Tasks, "queues", &row.Queues)
	if row.Total != 10 || row.Read != 9 || *row.Tasks["pending"] != 51 || len(row.Queues) != 10 {
		t.Errorf("got %+v", row)
	}
	if pending, ok := row.Queues[3]["pending"]; !ok || pending != nil || row.Queues[3]["queue"] != "q3" || row.Queues[4]["pending"] != 5.0 {
		t.Errorf("the broken queue is %v, the next one %v", row.Queues[3], row.Queues[4])
	}
}

// Unreadable numbers are shown as unknown, never as zero. An error of all queues is printed once.
func TestStatsWithoutPermission(t *testing.T) {
	w := newWorld(t)
	for n := range 10 {
		w.enqueueTo(fmt.Sprint("q", n), 1)
	}
	uri := w.user("reset", "on", ">pw", "~*", "+smembers", "+hello", "+ping", "+client")
	run := func(args ...string) result {
		return w.raw(t.Context(), append([]string{"--uri", uri, "--namespace", w.namespace}, args...)...)
	}
	r := run("stats")
	if !strings.Contains(r.out, "Tasks by state, 0 of 10 queues\n") || !containsFields(r.out, "? ? ? ? ? ? ?") ||
		!containsFields(r.out, "Processed: ?") || !containsFields(r.out, "Memory: ?") || !containsFields(r.out, "Version: ?") {
		t.Errorf("got %s", r.out)
	}
	if n := strings.Count(r.err, "evalsha"); n != 1 || !strings.Contains(r.err, "10 queues") || r.code != ExitFailed {
		t.Errorf("the error of all queues is printed %d times: %s", n, r.err)
	}
	var tasks, today, redis map[string]any
	r = run("stats", "--json")
	decode(t, r.out, "tasks", &tasks, "today", &today, "redis", &redis)
	for _, object := range []map[string]any{tasks, today, redis} {
		for name, v := range object {
			if v != nil {
				t.Errorf("%s is %v, not null", name, v)
			}
		}
	}
	for _, command := range []string{"queue ls", "queue ls -o json", "queue top --once -i 100ms", "queue inspect q0 q1 q2 q3 q4 q5 q6 q7 q8 q9"} {
		r := run(strings.Fields(command)...)
		if strings.Count(r.err, "evalsha") != 1 || r.code != ExitFailed || strings.ContainsAny(r.out, "0123456789") {
			t.Errorf("%s: got %+v; want one error", command, r)
		}
	}
	// Without MEMORY USAGE the size of a queue is unknown.
	uri = w.user("reset", "on", ">pw", "~*", "&*", "+@all", "-memory", "-info")
	if r := run("stats"); !containsFields(r.out, "q4 1 * ? 0 0") || r.code != ExitFailed {
		t.Errorf("got %+v", r)
	}
	if r := run("queue", "ls", "-o", "template={{.memory_usage_bytes}}"); r.out != strings.Repeat("<no value>\n", 10) {
		t.Errorf("got %+v", r)
	}
}

// enqueueTo enqueues n tasks.
func (w *world) enqueueTo(queue string, n int) {
	w.t.Helper()
	for range n {
		w.enqueue("t", "", asynq.Queue(queue))
	}
}

// user creates a Redis user with the given rules and returns its URI. The user is deleted at the
// end of the test.
func (w *world) user(rules ...string) string {
	w.t.Helper()
	args := []any{"ACL", "SETUSER", w.namespace}
	for _, rule := range rules {
		args = append(args, rule)
	}
	if err := w.redis.Do(w.t.Context(), args...).Err(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { w.redis.Do(w.t.Context(), "ACL", "DELUSER", w.namespace) })
	return "redis://" + w.namespace + ":pw@" + redisAddr
}

// containsFields reports whether a line starts with the given fields; "*" matches any field.
func containsFields(text, fields string) bool {
	want := strings.Fields(fields)
	for line := range strings.Lines(text) {
		got := strings.Fields(line)
		same := len(got) >= len(want)
		for n := 0; same && n < len(want); n++ {
			same = want[n] == "*" || got[n] == want[n]
		}
		if same {
			return true
		}
	}
	return false
}

// decode decodes some fields of a JSON object.
func decode(t *testing.T, text string, into ...any) {
	t.Helper()
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	for n := 0; n < len(into); n += 2 {
		name := into[n].(string)
		if err := json.Unmarshal(object[name], into[n+1]); err != nil {
			t.Fatalf("%s: %v in %s", name, err, text)
		}
	}
}
