package cli

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/asynq-go/asynq"
)

// With TLS to Redis and to browsers, pages and streams work, and shutdown is graceful.
func TestWebTLS(t *testing.T) {
	w := newWorld(t)
	own := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate, valid for 127.0.0.1 and example.com
	own.Close()
	pair := own.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile := filepath.Join(w.home, "cert.pem"), filepath.Join(w.home, "key.pem")
	for name, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, keyFile: {Type: "PRIVATE KEY", Bytes: key}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	redis, err := miniredis.RunTLS(&tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(redis.Close)
	pool := x509.NewCertPool()
	pool.AddCert(own.Certificate())
	trusting := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	opt, err := inNamespace(asynq.RedisClientOpt{Addr: redis.Addr(), TLSConfig: trusting}, w.namespace)
	if err != nil {
		t.Fatal(err)
	}
	client := asynq.NewClient(opt)
	defer client.Close()
	if _, err := client.Enqueue(asynq.NewTask("a", nil), asynq.Queue("secrets")); err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Transport: &http.Transport{TLSClientConfig: trusting, ForceAttemptHTTP2: true}}
	t.Cleanup(browser.CloseIdleConnections)
	open := func(url string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := browser.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	listener := []string{"--listen", "127.0.0.1:0", "--listen-cert", certFile, "--listen-key", keyFile}
	for _, to := range [][]string{
		{"--redis-addr", redis.Addr(), "--redis-tls", "example.com", "--tls-ca", certFile},
		{"--redis-url", "rediss://" + redis.Addr(), "--tls-ca", certFile},
		{"--uri", "rediss://" + redis.Addr(), "--redis-insecure-tls"},
	} {
		url, stop := w.serveWeb(append(to, listener...)...)
		if !strings.HasPrefix(url, "https://") {
			t.Errorf("it is at %s", url)
		}
		resp := open(url + "/queues")
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2 || !strings.Contains(string(body), "secrets") {
			t.Errorf("%v: %s %s %v\n%s", to, resp.Proto, resp.Status, err, body)
		}
		streams := make([]*http.Response, 5)
		for i := range streams {
			streams[i] = open(url + "/events")
		}
		if code, stderr := stop(); code != ExitDone || strings.Contains(stderr, "interrupted") {
			t.Errorf("%v: exit code %d, standard error %s", to, code, stderr)
		}
		for _, stream := range streams {
			if _, err := io.Copy(io.Discard, stream.Body); err != nil {
				t.Errorf("a stream did not end cleanly: %v", err)
			}
			stream.Body.Close()
		}
	}
	// Without the CA, the connection to Redis fails, and the page shows the reason.
	url, stop := w.serveWeb(append([]string{"--uri", "rediss://" + redis.Addr()}, listener...)...)
	resp := open(url + "/api/v2/health")
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || !strings.Contains(string(body), "x509") {
		t.Errorf("health: %s %v", body, err)
	}
	_, _ = stop()
}
