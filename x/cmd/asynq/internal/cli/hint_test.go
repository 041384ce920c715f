package cli

import (
	"crypto/tls"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
)

// Where only one side speaks TLS, the error is followed by a line that says so, once; other errors are not.
func TestHintOfTLS(t *testing.T) {
	w := newWorld(t)
	certified := httptest.NewUnstartedServer(nil)
	certified.StartTLS() // for its certificate
	t.Cleanup(certified.Close)
	encrypted, err := miniredis.RunTLS(&tls.Config{Certificates: certified.TLS.Certificates, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(encrypted.Close)
	const with, without = "made with TLS", "made without TLS"
	for args, want := range map[string]string{
		"-u " + redisAddr + " --tls --dial-timeout 200ms --timeout 200ms queue pause a b": with,
		"-u " + encrypted.Addr() + " queue ls":                                            without,
		"-u " + encrypted.Addr() + " --tls queue ls":                                      "", // the certificate: the error says it
		"-u " + encrypted.Addr() + " --tls --insecure queue ls":                           "",
		"-u 127.0.0.1:1 queue ls":                                                         "",
		"-u " + redisAddr + " queue inspect nowhere":                                      "",
	} {
		r := w.raw(t.Context(), strings.Fields(args)...)
		if n := strings.Count(r.err, "The connection is made"); want == "" && n != 0 || want != "" && (n != 1 || !strings.Contains(r.err, want)) {
			t.Errorf("%s: got %+v; want a hint %q", args, r, want)
		}
	}
}
