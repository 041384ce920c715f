package asynqtest

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/asynq-go/asynq"
)

// FuzzPayload compares payloads: each equals itself, also in another layout, and the comparison is
// symmetric.
func FuzzPayload(f *testing.F) {
	for _, pair := range [][2]string{
		{`{"a":1}`, `{ "a": 1.0 }`}, {"1e400", "10e399"}, {"1e999999999", "1e-999999999"}, {"\xff", ""}, {"null", ""}, {"[[[[", "{}{}"}, {"0", "-0"},
	} {
		f.Add([]byte(pair[0]), []byte(pair[1]))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		differ := func(want, got []byte) bool {
			all := Task{Payload: want}.differences(&asynq.TaskInfo{Payload: got}, time.Now())
			return len(all) > 0
		}
		if differ(a, bytes.Clone(a)) {
			t.Errorf("%q differs from itself", a)
		}
		if differ(a, b) != differ(b, a) {
			t.Errorf("%q and %q differ in one direction only", a, b)
		}
		var wide bytes.Buffer
		if json.Indent(&wide, a, " ", "\t") == nil && differ(a, wide.Bytes()) {
			t.Errorf("%q differs from %q", a, &wide)
		}
		if text := (Task{Payload: a}).String(); len(text) > 1000 {
			t.Errorf("a payload is shown in %d bytes", len(text))
		}
	})
}
