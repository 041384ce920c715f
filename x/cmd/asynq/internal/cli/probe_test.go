package cli

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestProbe(t *testing.T) {
	w := newWorld(t)
	block := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/ok", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.Handle("/moved", http.RedirectHandler("/ok", http.StatusFound))
	mux.HandleFunc("/down", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-block:
		case <-r.Context().Done():
		}
	})
	plain, secure := httptest.NewServer(mux), httptest.NewUnstartedServer(mux)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // a probe rejects the certificate
	secure.StartTLS()
	defer plain.Close()
	defer secure.Close()
	defer close(block)
	unused := httptest.NewServer(nil)
	unused.Close()
	for _, c := range []struct {
		args []string
		code int
		err  string
	}{
		{[]string{plain.URL + "/ok"}, ExitDone, ""},
		{[]string{plain.URL + "/down"}, ExitFailed, "/down: status 503 Service Unavailable\n"},
		{[]string{plain.URL + "/moved"}, ExitFailed, "/moved: status 302 Found\n"},
		{[]string{"--wait", "10ms", plain.URL + "/slow"}, ExitFailed, "context deadline exceeded\n"},
		{[]string{unused.URL + "/ok"}, ExitFailed, "connection refused\n"},
		{[]string{secure.URL + "/ok"}, ExitFailed, "certificate signed by unknown authority\n"},
		{[]string{"--insecure", secure.URL + "/ok"}, ExitDone, ""},
		{[]string{"localhost:8080/healthz"}, ExitUsage, `"localhost:8080/healthz" is not an http or https URL`},
		{[]string{"--wait", "0", plain.URL + "/ok"}, ExitUsage, "--wait must be greater than 0"},
		{[]string{"http://a", "http://b"}, ExitUsage, "usage: asynq probe [URL]"},
	} {
		r := w.run(append([]string{"probe"}, c.args...)...)
		if r.code != c.code || r.out != "" || (r.err == "") != (c.err == "") || !strings.Contains(r.err, c.err) || strings.Contains(r.err, "Redis") {
			t.Errorf("%q: got %+v", c.args, r)
		}
	}
}

// Without a URL, one healthy server is enough.
func TestProbeOfSeveral(t *testing.T) {
	w := newWorld(t)
	up, down := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})), httptest.NewServer(http.NotFoundHandler())
	defer up.Close()
	defer down.Close()
	client := probeClient(false)
	if err := probe(w.t.Context(), client, []string{down.URL, up.URL, down.URL}); err != nil {
		t.Error(err)
	}
	err := probe(w.t.Context(), client, []string{down.URL + "/b", down.URL + "/a"})
	if want := down.URL + "/a: status 404 Not Found; " + down.URL + "/b: status 404 Not Found"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// The text of asynq version has the commit if the build records it.
func TestCommitOfVersion(t *testing.T) {
	if got := (versionRow{}).commit(); got != "" {
		t.Errorf("no revision: %q", got)
	}
	if got := (versionRow{Revision: "0123456789abcdef0123456789abcdef01234567"}).commit(); got != "commit 0123456789ab, " {
		t.Errorf("got %q", got)
	}
}
