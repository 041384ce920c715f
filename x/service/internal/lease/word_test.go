package lease

import "testing"

func FuzzWord(f *testing.F) {
	f.Add("q", "1", "tok-en", "AQFxATFh")
	f.Add("a/ü\x00", "id", "x", "")
	f.Add("q", "1", "x", "AQD_____DwFh")
	f.Fuzz(func(t *testing.T, queue, id, token, word string) {
		q, i, k, ok := unpack(pack(queue, id, token))
		if all := queue != "" && id != "" && token != ""; ok != all {
			t.Fatalf("ok is %v for %q %q %q", ok, queue, id, token)
		}
		if ok && (q != queue || i != id || k != token) {
			t.Fatalf("%q %q %q became %q %q %q", queue, id, token, q, i, k)
		}
		if q, i, k, ok := unpack(word); ok && (q == "" || i == "" || k == "") {
			t.Fatalf("%q is %q %q %q", word, q, i, k)
		}
	})
}
