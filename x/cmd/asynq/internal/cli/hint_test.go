package cli

import (
	"crypto/tls"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
)

// If only one side uses TLS, a hint follows the error once. Other errors have no such hint.
func TestTLSHint(t *testing.T) {
	w := newWorld(t)
	certified := httptest.NewUnstartedServer(nil)
	certified.StartTLS() // for its certificate
	t.Cleanup(certified.Close)
	encrypted, err := miniredis.RunTLS(&tls.Config{Certificates: certified.TLS.Certificates, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(encrypted.Close)
	const with, without = "connection uses TLS", "does not use TLS"
	for args, want := range map[string]string{
		"-u " + redisAddr + " --tls --dial-timeout 200ms --timeout 200ms queue pause a b": with,
		"-u " + encrypted.Addr() + " queue ls":                                            without,
		"-u " + encrypted.Addr() + " --tls queue ls":                                      "", // the error mentions the certificate
		"-u " + encrypted.Addr() + " --tls --insecure queue ls":                           "",
		"-u 127.0.0.1:1 queue ls":                                                         "",
		"-u " + redisAddr + " queue inspect nowhere":                                      "",
	} {
		r := w.raw(t.Context(), strings.Fields(args)...)
		if n := strings.Count(r.err, "The connection "); want == "" && n != 0 || want != "" && (n != 1 || !strings.Contains(r.err, want)) {
			t.Errorf("%s: got %+v; want a hint %q", args, r, want)
		}
	}
}
