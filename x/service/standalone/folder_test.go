package standalone_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
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

	"github.com/asynq-go/asynq/internal/proctest"
	"github.com/asynq-go/asynq/x/service/standalone"
)

const (
	secret    = "standalone-secret-1"
	newSecret = "standalone-secret-2"
	timeout   = time.Minute
)

// folder is a directory with a configuration, and its Redis.
type folder struct {
	*testing.T
	redis *miniredis.Miniredis
	addr  string // of Redis, also while it is stopped
	path  string // of the configuration
}

func newFolder(t *testing.T) *folder {
	t.Helper()
	redis := miniredis.RunT(t)
	return &folder{t, redis, redis.Addr(), filepath.Join(t.TempDir(), "service.yaml")}
}

// write writes a configuration with additional text. It listens on a free port of localhost.
func (f *folder) write(more string) {
	f.Helper()
	f.writeAll("listen: 127.0.0.1:0\n" + f.minimum() + more)
}

// minimum returns the required keys.
func (f *folder) minimum() string {
	return "redis: {uri: 'redis://" + f.addr + "'}\n" + tokenLine("one", secret)
}

func tokenLine(name, secret string) string {
	return "tokens:\n- {name: " + name + ", secret: " + secret + ", scopes: [enqueue, read], queues: ['*']}\n"
}

func (f *folder) writeAll(text string) {
	f.Helper()
	if err := os.WriteFile(f.path, []byte(text), 0o600); err != nil {
		f.Fatal(err)
	}
}

// running is a running service.
type running struct {
	f        *folder
	addr     string
	tls      bool
	cancel   context.CancelFunc
	ended    chan error
	reload   chan struct{}
	reloaded chan error
	links    chan string
	newLink  chan struct{}
	log      *proctest.Log
}

// run starts the service and waits until it listens.
func (f *folder) run() *running {
	f.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{f: f, cancel: cancel, ended: make(chan error, 1), reload: make(chan struct{}), reloaded: make(chan error, 1),
		links: make(chan string, 10), newLink: make(chan struct{}), log: new(proctest.Log)}
	listening := make(chan struct{})
	go func() {
		r.ended <- standalone.Run(ctx, standalone.Options{
			Path: f.path, Reload: r.reload, Logger: slog.New(slog.NewTextHandler(r.log, nil)),
			Listening:  func(addr net.Addr, tls bool) { r.addr, r.tls = addr.String(), tls; close(listening) },
			SignInLink: func(path string) { r.links <- path }, NewLink: r.newLink,
			Reloaded: func(err error) { r.reloaded <- err },
		})
	}()
	f.Cleanup(cancel)
	select {
	case <-listening:
	case err := <-r.ended:
		f.Fatalf("service ended: %v", err)
	case <-time.After(timeout):
		f.Fatal("service does not listen")
	}
	return r
}

// end shuts the service down.
func (r *running) end() {
	r.f.Helper()
	r.cancel()
	select {
	case err := <-r.ended:
		if err != nil {
			r.f.Errorf("service ended with %v", err)
		}
	case <-time.After(timeout):
		r.f.Fatal("service does not end")
	}
}

// status makes a request and returns the status and the body of the response.
func (r *running) status(method, path, token, body string) (int, string) {
	r.f.Helper()
	req, err := http.NewRequest(method, "http://"+r.addr+path, strings.NewReader(body))
	if err != nil {
		r.f.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		r.f.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		r.f.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// is fails the test unless the response has this status.
func (r *running) is(want int, method, path, token, body string) {
	r.f.Helper()
	if got, text := r.status(method, path, token, body); got != want {
		r.f.Errorf("%s %s: status %d, want %d: %s", method, path, got, want, text)
	}
}

// certificate writes a self-signed certificate and its key to the directory of the configuration.
// It returns the path of the certificate and a pool with it.
func (f *folder) certificate(name string) (certFile string, pool *x509.CertPool) {
	f.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		BasicConstraintsValid: true, IsCA: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err1 := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	secret, err2 := x509.MarshalECPrivateKey(key)
	parsed, err3 := x509.ParseCertificate(der)
	certFile = filepath.Join(filepath.Dir(f.path), name+".pem")
	err4 := os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600)
	err5 := os.WriteFile(strings.TrimSuffix(certFile, ".pem")+".key", pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret}), 0o600)
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		f.Fatal(err)
	}
	pool = x509.NewCertPool()
	pool.AddCert(parsed)
	return certFile, pool
}
