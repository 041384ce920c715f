package apiv2

import "testing"

// Ambiguous bodies are rejected; the content of payloads is arbitrary.
func TestBodiesAreStrict(t *testing.T) {
	s := newSite(t, nil)
	for body, pointer := range map[string]string{
		`{"type":"a","tpye":"b"}`:                                    "/tpye",
		`{"Type":"a"}`:                                               "/Type",
		`{"type":"a","Type":"b"}`:                                    "/Type",
		`{"type":"a","type":"b"}`:                                    "/type",
		`{"type":"a","max_retry":1,"max_retry":2}`:                   "/max_retry",
		`{"type":"a","a/b~c":1}`:                                     "/a~1b~0c",
		`{"type":"a","payload":{"value":1,"Value":2}}`:               "/payload/Value",
		`{"type":"a","headers":{"x":"1","X":"2","x":"3"}}`:           "/headers/x",
		`{"type":"a","payload":{"value":{"a":1,"a":2}},"Queue":"q"}`: "/Queue",
	} {
		var p Problem
		if s.want(422, "POST", "/tasks", body).into(&p); len(p.Errors) != 1 || p.Errors[0].Pointer != pointer {
			t.Errorf("%s: %+v, want it at %s", body, p, pointer)
		}
	}
	var p Problem
	if s.want(422, "POST", "/tasks:batch", `{"tasks":[{"type":"a"},{"type":"a","ID":"x"}]}`).into(&p); p.Errors[0].Pointer != "/tasks/1/ID" {
		t.Errorf("in a batch: %+v", p)
	}
	const payload = `{"a":1,"A":2,"a":[{"b":1,"b":2}]}`
	var task Task
	s.want(201, "POST", "/tasks", `{"type":"a","payload":{"value":`+payload+`},"headers":{"x":"1","X":"2"},"deadline":"2040-01-01T00:00:00Z","max_retry":null}`).into(&task)
	if string(task.Payload.Value) != payload {
		t.Errorf("the payload is %s", task.Payload.Value)
	}
}
