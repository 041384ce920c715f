package lease

import (
	"encoding/base64"
	"testing"
)

func FuzzHandle(f *testing.F) {
	f.Add("q", "1", "web-1:42", "tok-en", "AQFxATFh")
	f.Add("a/ü\x00", "id", "", "x", "")
	f.Add("q", "1", "w", "x", "AgD_____DwFh")
	f.Fuzz(func(t *testing.T, queue, id, worker, token, text string) {
		made := handle{queue, id, worker, token}
		got, ok := decode(encode(made))
		if all := queue != "" && id != "" && token != ""; ok != all {
			t.Fatalf("ok is %v for %+v", ok, made)
		}
		if ok && got != made {
			t.Fatalf("%+v became %+v", made, got)
		}
		if w, ok := decode(text); ok && (w.queue == "" || w.id == "" || w.token == "") {
			t.Fatalf("%q is %+v", text, w)
		}
	})
}

// Workers may hold leases across an update of the service: leases of the previous version stay
// valid.
func TestPreviousHandleVersion(t *testing.T) {
	t.Parallel()
	old := base64.RawURLEncoding.EncodeToString([]byte("\x01\x01q\x02idtok-en"))
	if w, ok := decode(old); !ok || w != (handle{"q", "id", "", "tok-en"}) {
		t.Errorf("it is %+v, %v", w, ok)
	}
}
