package metrics_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/asynq-go/asynq"
	"github.com/asynq-go/asynq/x/metrics"
)

// freeListener accepts connections and never replies.
func freeListener(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// exporter serves the metrics of a Redis until the test ends, and returns its address.
func exporter(t testing.TB, opt asynq.RedisConnOpt, opts metrics.ServeOptions, more ...prometheus.Collector) string {
	t.Helper()
	inspector := newInspector(t, opt)
	reg := prometheus.NewRegistry()
	reg.MustRegister(metrics.NewCollector(inspector, metrics.CollectorOptions{Flows: 1000}))
	reg.MustRegister(more...)
	listening, ended := make(chan string, 1), make(chan error, 1)
	opts.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	opts.Addr, opts.Listening = "127.0.0.1:0", func(addr net.Addr) { listening <- addr.String() }
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ended <- metrics.Serve(ctx, metrics.Handler(inspector, reg), opts) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("it ended with %v", err)
		}
	})
	select {
	case addr := <-listening:
		return addr
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
		return ""
	}
}

func get(t testing.TB, client *http.Client, url string) (int, string) {
	t.Helper()
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestServe(t *testing.T) {
	t.Parallel()
	mini := miniredis.RunT(t)
	opt := asynq.RedisClientOpt{Addr: mini.Addr(), Params: "max_retries=-1"}
	enqueue(t, newClient(t, opt), "a")
	addr := exporter(t, opt, metrics.ServeOptions{})
	if code, body := get(t, http.DefaultClient, "http://"+addr+"/metrics"); code != http.StatusOK || !strings.Contains(body, `asynq_queue_size{queue="default"} 1`) {
		t.Errorf("%d %s", code, body)
	}
	if code, body := get(t, http.DefaultClient, "http://"+addr+"/healthz"); code != http.StatusOK || body != "ok\n" {
		t.Errorf("%d %s", code, body)
	}
	if code, _ := get(t, http.DefaultClient, "http://"+addr+"/other"); code != http.StatusNotFound {
		t.Errorf("%d", code)
	}
	mini.Close()
	if code, body := get(t, http.DefaultClient, "http://"+addr+"/healthz"); code != http.StatusServiceUnavailable || strings.Contains(body, "127.0.0.1") {
		t.Errorf("without Redis: %d %s", code, body)
	}
	if code, body := get(t, http.DefaultClient, "http://"+addr+"/metrics"); code != http.StatusOK || !strings.Contains(body, `asynq_scrape_success{part="queues"} 0`) {
		t.Errorf("without Redis: %d %s", code, body)
	}
}

func TestServeTLS(t *testing.T) {
	t.Parallel()
	opt := asynq.RedisClientOpt{Addr: miniredis.RunT(t).Addr()}
	dir := t.TempDir()
	ca := newAuthority(t)
	cert, key, ours := ca.issue(t, dir)
	caFile := filepath.Join(dir, "ca.pem")
	writePEM(t, caFile, "CERTIFICATE", ca.cert.Raw)
	addr := exporter(t, opt, metrics.ServeOptions{CertFile: cert, KeyFile: key, ClientCAFile: caFile})
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	with := func(certs ...tls.Certificate) *http.Client {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: certs, MinVersion: tls.VersionTLS12}}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport}
	}
	if code, _ := get(t, with(ours), "https://"+addr+"/metrics"); code != http.StatusOK {
		t.Errorf("with a certificate: %d", code)
	}
	if resp, err := with().Get("https://" + addr + "/metrics"); err == nil {
		_ = resp.Body.Close()
		t.Error("no client certificate was required")
	}
}

func TestServeRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cert, key, _ := newAuthority(t).issue(t, dir)
	taken := freeListener(t)
	for want, opts := range map[string]metrics.ServeOptions{
		"client certificates need TLS": {ClientCAFile: empty},
		"load the certificate":         {CertFile: cert},
		"no certificate found in":      {CertFile: cert, KeyFile: key, ClientCAFile: empty},
		"read the client certificate":  {CertFile: cert, KeyFile: key, ClientCAFile: filepath.Join(dir, "none")},
		"metrics: listen":              {Addr: taken.Addr().String()},
	} {
		if err := metrics.Serve(context.Background(), http.NotFoundHandler(), opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one of %q", err, want)
		}
	}
}

// authority is a certificate authority.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert: cert, key: key}
}

// issue makes a certificate for 127.0.0.1, for both sides of a connection.
func (a *authority) issue(t *testing.T, dir string) (certFile, keyFile string, pair tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	rawKey, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writePEM(t, certFile, "CERTIFICATE", raw)
	writePEM(t, keyFile, "PRIVATE KEY", rawKey)
	if pair, err = tls.LoadX509KeyPair(certFile, keyFile); err != nil {
		t.Fatal(err)
	}
	return certFile, keyFile, pair
}

func writePEM(t *testing.T, path, kind string, raw []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}), 0o600); err != nil {
		t.Fatal(err)
	}
}
