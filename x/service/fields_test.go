package service_test

import (
	"fmt"
	"strings"
	"testing"
)

// Problems point to the invalid field, at any depth, and describe the valid values.
func TestProblemsPointToTheField(t *testing.T) {
	t.Parallel()
	s := newEnv(t, fakeRedis(t), nil)
	const (
		text, whole, truth = "a string", "an integer", "true or false"
		duration, time     = "a duration", "a time"
		object, list       = "an object", "an array"
		unknown            = "unknown field"
	)
	wrong := map[string][]string{ // values of other types
		text:     {`5`, `true`, `[]`, `{}`, `["x"]`},
		whole:    {`"5"`, `1.5`, `1e30`, `-1e30`, `9223372036854775808`, `true`, `[]`, `{}`, `""`},
		truth:    {`"true"`, `0`, `[]`, `{}`},
		duration: {`5`, `""`, `"5"`, `"5 s"`, `"-1s"`, `"1d"`, `"999999999999h"`, `"s"`, `true`, `[]`, `{}`, `["1s"]`, `{"s":1}`},
		time:     {`5`, `""`, `"tomorrow"`, `"2026-01-02"`, `"2026-13-02T15:04:05Z"`, `"2026-01-02T15:04:05"`, `"0001-01-01T00:00:00Z"`, `true`, `[]`, `{}`},
		object:   {`5`, `"x"`, `[]`, `true`},
		list:     {`5`, `"x"`, `{}`, `true`},
		unknown:  {`5`, `null`},
	}
	fields := map[string]map[string]string{ // by pointer
		"POST /v1/tasks": {
			"": object, "/type": text, "/queue": text, "/id": text, "/payload_text": text, "/payload_base64": text, "/headers": object, "/headers/a~1b": text,
			"/max_retry": whole, "/timeout": duration, "/deadline": time, "/unique_for": duration, "/process_at": time, "/process_in": duration,
			"/retention": duration, "/group": text, "/idempotency_key": text, "/idempotency_ttl": duration,
			"/partition_key": text, "/unique_key": text, "/on_duplicate": text, "/debounce": object, "/debounce/key": text, "/debounce/quiet": duration, "/debounce/max_wait": duration,
			"/throttle": object, "/throttle/key": text, "/throttle/window": duration, "/expires_in": duration, "/throttle/colour": unknown, "/colour": unknown, "/a~0~1": unknown,
		},
		"POST /v1/tasks/batch": {"": object, "/tasks": list, "/colour": unknown},
		"POST /v1/take":        {"": object, "/queues": list, "/queues/0": text, "/n": whole, "/wait": duration, "/worker": text, "/colour": unknown},
		"POST /v1/leases/settle": {
			"": object, "/outcomes": list, "/outcomes/0": object, "/outcomes/0/lease": text, "/outcomes/0/outcome": text, "/outcomes/0/result_text": text,
			"/outcomes/0/result_base64": text, "/outcomes/0/error": text, "/outcomes/0/retry_in": duration, "/outcomes/0/skip_retry": truth,
			"/outcomes/0/colour": unknown, "/outcomes/0/doneBody": unknown,
		},
		"POST /v1/leases/extend": {"": object, "/leases": list, "/leases/0": text},
		"POST /v1/leases/x/done": {"": object, "/result_text": text, "/result_base64": text, "/colour": unknown},
		"POST /v1/leases/x/fail": {"": object, "/error": text, "/retry_in": duration, "/skip_retry": truth, "/colour": unknown},
		"POST /v1/workflows": {
			"": object, "/id": text, "/retention": duration, "/nodes": list, "/nodes/0": object, "/nodes/0/name": text, "/nodes/0/task": object,
			"/nodes/0/task/type": text, "/nodes/0/task/timeout": duration, "/nodes/0/tasks": list, "/nodes/0/tasks/0": object, "/nodes/0/tasks/0/max_retry": whole,
			"/nodes/0/after": list, "/nodes/0/after/0": text, "/nodes/0/after_failure": list, "/nodes/0/after_end": list,
			"/nodes/0/on_dependency_failure": text, "/nodes/0/colour": unknown, "/nodes/0/task/colour": unknown, "/colour": unknown,
		},
		"POST /v1/batches": {
			"": object, "/id": text, "/retention": duration, "/tasks": list, "/tasks/0": object, "/tasks/0/type": text, "/open": truth,
			"/on_success": object, "/on_success/type": text, "/on_failure": object, "/on_end": object, "/on_end/process_in": duration, "/colour": unknown,
		},
		"POST /v1/batches/x/tasks":             {"": object, "/tasks": list, "/colour": unknown},
		"POST /v1/queues/q/tasks/1/reschedule": {"": object, "/at": time, "/in": duration, "/colour": unknown},
	}
	one := fields["POST /v1/tasks"] // a batch has a result per task
	for pointer, kind := range one {
		for _, value := range wrong[kind] {
			r := s.call("POST", "/v1/tasks/batch", `{"tasks":[{"type":"t"},`+bodyWith(pointer, value)+`]}`).want(200)
			if got := r.get("results", 1, "problem", "errors", 0, "pointer"); got != "/tasks/1"+pointer {
				t.Errorf("batch, %s as %s: pointer %q", value, pointer, got)
			}
			if r.get("results", 0, "task") == nil {
				t.Errorf("the other task of the batch was not enqueued: %s", r.body)
			}
		}
	}
	for route, pointers := range fields {
		method, path, _ := strings.Cut(route, " ")
		for pointer, kind := range pointers {
			for _, value := range wrong[kind] {
				r := s.call(method, path, bodyWith(pointer, value)).problem(400, "invalid-request")
				if got := r.str("errors", 0, "pointer"); got != pointer || !strings.Contains(r.str("errors", 0, "detail"), kind) {
					t.Errorf("%s, %s as %s: %s", route, value, pointer, r.body)
				}
			}
		}
	}
}

// bodyWith returns a body with a value at a pointer, in which 0 is the first element of an array.
func bodyWith(pointer, value string) string {
	if pointer == "" {
		return value
	}
	parts := strings.Split(pointer[1:], "/")
	for i := len(parts) - 1; i >= 0; i-- {
		if parts[i] == "0" {
			value = "[" + value + "]"
		} else {
			value = "{" + quote(strings.NewReplacer("~1", "/", "~0", "~").Replace(parts[i])) + ":" + value + "}"
		}
	}
	return value
}

// All errors are reported at once, up to a limit; valid fields are not.
func TestProblemsListAllErrors(t *testing.T) {
	t.Parallel()
	s := newEnv(t, fakeRedis(t), nil)
	r := s.call("POST", "/v1/leases/settle", `{"outcomes":[{"lease":"x","outcome":"done"},{"lease":1,"outcome":null,"retry_in":2},{"skip_retry":"x"}]}`).problem(400, "invalid-request")
	var got []string
	for i := range r.list("errors") {
		got = append(got, r.str("errors", i, "pointer"))
	}
	if want := "[/outcomes/1/lease /outcomes/1/retry_in]"; fmt.Sprint(got) != want {
		t.Errorf("pointers %v, want %s", got, want)
	}
	r = s.call("POST", "/v1/take", `{"queues":[`+strings.Repeat("1,", 9999)+`1]}`).problem(400, "invalid-request")
	if n := len(r.list("errors")); n != 20 {
		t.Errorf("%d errors, want 20", n)
	}
	// Values that the decoder accepts but that are invalid.
	for _, c := range []struct{ path, body, pointer string }{
		{"/v1/take", `{"queues":["a"," "]}`, "/queues/1"},
		{"/v1/take", `{"queues":["a","}"]}`, "/queues/1"},
		{"/v1/take", `{"queues":["a"],"n":-1}`, "/n"},
		{"/v1/tasks", `{"type":"t","max_retry":-1}`, "/max_retry"},
		{"/v1/tasks", `{"type":"t","max_retry":2147483648}`, "/max_retry"},
		{"/v1/tasks", `{"type":"t","queue":" "}`, "/queue"},
		{"/v1/tasks", `{"type":"t","group":" "}`, "/group"},
		{"/v1/tasks", `{"type":" "}`, "/type"},
	} {
		if got := s.call("POST", c.path, c.body).problem(400, "invalid-request").str("errors", 0, "pointer"); got != c.pointer {
			t.Errorf("%s: pointer %q, want %q", c.body, got, c.pointer)
		}
	}
	for path, body := range map[string]string{"/v1/leases/settle": `{"outcomes":[{"lease":"x","outcome":"done"},{"lease":"x","outcome":"done"}]}`, "/v1/leases/extend": `{"leases":["x","x"]}`} {
		want := map[string]string{"/v1/leases/settle": "/outcomes/1/lease", "/v1/leases/extend": "/leases/1"}[path]
		if got := s.call("POST", path, body).want(200).get("results", 1, "problem", "errors", 0, "pointer"); got != want {
			t.Errorf("%s: pointer %q, want %q", path, got, want)
		}
	}
}

// Ambiguous JSON, which encoding/json accepts and others may read differently, is rejected with its
// position; in a batch only the entry is rejected.
func TestAmbiguousBodiesAreRejected(t *testing.T) {
	t.Parallel()
	s := newEnv(t, fakeRedis(t), nil)
	const half, twice, unknown = "unpaired surrogate", "duplicate field", "unknown field"
	for _, c := range []struct{ path, body, pointer, detail string }{
		{"/v1/tasks", `{"type":"t\ud800"}`, "/type", half},
		{"/v1/tasks", `{"type":"t","id":"\ude00\ud83d"}`, "/id", half},
		{"/v1/tasks", `{"type":"t","id":"\ud83dx\ude00"}`, "/id", half},
		{"/v1/tasks", `{"type":"t","id":"\\\ud83d"}`, "/id", half},
		{"/v1/tasks", `{"type":"t","payload_text":"\ud800"}`, "/payload_text", half},
		{"/v1/tasks", `{"type":"t","headers":{"a":"\ud800"}}`, "/headers/a", half},
		{"/v1/tasks", `{"type":"t","headers":{"\ud800":"a"}}`, "/headers", half},
		{"/v1/tasks", `{"type":"t","headers":{"a":"1","\u0061":"2"}}`, "/headers/a", twice},
		{"/v1/tasks", `{"type":"t","type":"u"}`, "/type", twice},
		{"/v1/tasks", `{"type":"t","payload":{"a":"\"}"} , "t\u0079pe" : "u"}`, "/type", twice},
		{"/v1/tasks", `{"type":5,"type":"t"}`, "/type", twice},
		{"/v1/tasks", `{"type":"t","payload":1,"payload":2}`, "/payload", twice},
		{"/v1/tasks", `{"TYPE":"t"}`, "/TYPE", unknown},
		{"/v1/tasks", `{"type":"t","Timeout":"x"}`, "/Timeout", unknown},
		{"/v1/tasks", `{"type":"t","\ud800":1}`, "/\ufffd", unknown},
		{"/v1/take", `{"queues":["a","b\ud800"]}`, "/queues/1", half},
		{"/v1/take", `{"queues":["a"],"worker":"\ud800"}`, "/worker", half},
		{"/v1/take", `{"queues":["a"],"queues":["b"]}`, "/queues", twice},
		{"/v1/tasks/batch", `{"tasks":[],"tasks":[]}`, "/tasks", twice},
		{"/v1/leases/settle", `{"outcomes":[{"lease":"x","outcome":"fail","error":"\ud800"}]}`, "/outcomes/0/error", half},
		{"/v1/leases/settle", `{"outcomes":[{"lease":"x","outcome":"done","result_text":"\ud800"}]}`, "/outcomes/0/result_text", half},
		{"/v1/leases/x/done", `{"Result":1}`, "/Result", unknown},
		{"/v1/queues/q/tasks/1/reschedule", `{"in":"1s","in":"2s"}`, "/in", twice},
	} {
		r := s.call("POST", c.path, c.body).problem(400, "invalid-request")
		if len(r.list("errors")) != 1 || r.str("errors", 0, "pointer") != c.pointer || c.detail != twice && !strings.Contains(r.str("errors", 0, "detail"), c.detail) {
			t.Errorf("%s %s: %s", c.path, c.body, r.body)
		}
		if c.path != "/v1/tasks" {
			continue
		}
		r = s.call("POST", "/v1/tasks/batch", `{"tasks":[{"type":"t"},`+c.body+`,{"type":"t"}]}`).want(200)
		if got := r.get("results", 1, "problem", "errors", 0, "pointer"); got != "/tasks/1"+c.pointer || r.get("results", 0, "task") == nil || r.get("results", 2, "task") == nil {
			t.Errorf("batch, %s: %s", c.body, r.body)
		}
	}
	for _, body := range []string{
		`{"t\u0079pe":"t","id":"\ud83d\ude00","payload_text":"\\ud800 \" \\","headers":{"a":"1","b":"","A":"2"}}`,
		` { "type" : "t" , "payload" : {"type":[1,{"type":"}\\"}],"type":"\ud800","":-1.5e3} , "id":null, "max_retry" : 3 , "headers" : { } , "timeout":"1s"} `,
		`{"type":"t","headers":null}`,
	} {
		s.call("POST", "/v1/tasks", body).want(201)
		r := s.call("POST", "/v1/tasks/batch", `{"tasks":[`+strings.ReplaceAll(body, "ude00", "ude01")+`]}`).want(200)
		if r.get("results", 0, "task") == nil {
			t.Errorf("%s: %s", body, r.body)
		}
	}
}
